"""Fuzz tests: for any content, a parser returns a result or raises a clear error."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

import lamina.cli
from lamina.base.reading import read_lines
from lamina.base.yaml_files import read_yaml
from lamina.corpus.m2_format import apply_edits, stream_m2
from lamina.corpus.reading import OneFile
from lamina.errors import LaminaError
from lamina.recipe.loader import load_recipe
from lamina.study.study import read_study
from lamina.text.subwords import read_codes
from lamina.training.statistics import Speed, Tally
from support import run_lamina

quick = settings(max_examples=60, deadline=None)
M2_LINES = ("S a b", "A 0 1|||R|||x|||REQUIRED|||-NONE-|||0", "A -1 -1|||noop|||-NONE-|||R|||-NONE-|||0", "")
YAML_PARTS = ("name: x\n", "system: msc\n", "model: {size: tiny}\n", "decode: {beam: 1e9}\n", "&a", "*a", "? [", "- ")
JSON = st.recursive(
    st.one_of(st.none(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda each: st.dictionaries(st.sampled_from(["src", "tgt", "x"]), each, max_size=3) | st.lists(each, max_size=3),
    max_leaves=5,
)


@contextmanager
def errors_name(name: str) -> Iterator[None]:
    try:
        yield
    except LaminaError as error:
        if name not in str(error):
            raise AssertionError(f"{name} is not named: {error}") from error


def write(name: str, content: bytes) -> Path:
    path = Path(tempfile.mkdtemp()) / name
    path.write_bytes(content)
    return path


@quick
@given(st.lists(st.sampled_from(M2_LINES) | st.text(alphabet="SA|0-9 a\t", max_size=30), max_size=8))
def test_m2(lines: list[str]) -> None:
    with errors_name("x.m2"):
        for sentence in stream_m2(lines, "x.m2"):
            for edits in sentence.annotators.values():
                apply_edits(sentence.words, edits)


@quick
@given(st.binary(max_size=60) | JSON.map(json.dumps).map(str.encode), st.sampled_from(["x.jsonl", "x.tsv"]))
def test_pairs(content: bytes, name: str) -> None:
    path = write(name, content)
    with errors_name(str(path)):
        assert all(isinstance(side, str) for pair in OneFile(path).pairs() for side in pair)


@quick
@given(st.binary(max_size=60) | st.lists(st.sampled_from(YAML_PARTS), max_size=5).map("".join).map(str.encode))
def test_recipes_and_studies(content: bytes) -> None:
    path = write("r.yaml", content)
    with errors_name("r.yaml"):
        load_recipe(path, (), (50, 50), True)
    with errors_name("r.yaml"):
        read_study(path)


@quick
@given(st.text(max_size=60))
def test_codes(text: str) -> None:
    with errors_name("bpe.codes"):
        read_codes(text).segment_tokens(["word"])


def test_deeply_nested_yaml_is_an_error() -> None:
    with pytest.raises(Exception, match="nested too deeply"):
        read_yaml("[" * 5000)


def test_several_compressed_frames_are_one_file(tmp_path: Path) -> None:
    frames = [zstandard.compress(text) for text in (b"one\ntw", b"o\n", b"", b"three\n")]
    (tmp_path / "a.zst").write_bytes(b"".join(frames))
    assert list(read_lines(tmp_path / "a.zst")) == ["one", "two", "three"]


def test_speed_excludes_pauses() -> None:
    speed = Speed()
    speed.tokens = 100
    with speed.pause(Tally(torch.device("cpu"))):
        time.sleep(0.3)
    assert speed.per_second() > 100 / 0.3


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory")])
def test_out_of_memory_is_explained(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: object) -> None:
        raise error

    monkeypatch.setattr(lamina.cli, "app", fail)
    result = run_lamina("translate", "x")
    assert (result.returncode, result.stderr) == (1, f"lamina: {lamina.cli.MEMORY_ADVICE}\n")
