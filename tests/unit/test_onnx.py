"""ONNX exports compute the same as the model, in Lamina and in the exported `run.py`."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from lamina.interop.onnx import export_onnx
from lamina.model.seq2seq import Seq2Seq
from lamina.recipe.decode import SearchSettings
from lamina.search.beam import beam_search
from lamina.search.stepper import TorchStepper
from lamina.store.model_folder import write_model_folder
from lamina.systems.published import SYSTEMS
from lamina.text import sentences
from lamina.text.pipeline import TextPipeline, make_pipeline, pipeline_of_words
from lamina.text.subwords import learn_sentencepiece
from lamina.text.vocabulary import BOS, EOS, SPECIALS, UNK, Vocabularies, Vocabulary
from lamina.translation import load
from lamina.translation.onnx import OnnxBackend
from support import VARIANTS, WORDS, build_combination, make_batch, run_lamina, save, small

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

TEXT = pipeline_of_words(Vocabularies(WORDS, WORDS))
SEARCH = SearchSettings(beam=5, max_length=(1.0, 8))
SENTENCES = ["w1 w2 w3", "", "w4 w9 w7 w2 w2 w11", "w3", "w18 w17 nobody w16"]
FAST = ("coordination",)
every_system = pytest.mark.parametrize(
    "system", [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in SYSTEMS]
)


def check_steps(model: Seq2Seq, out: Path, lengths: tuple[int, ...] = (5, 2, 9), steps: int = 6) -> None:
    """Uses other numbers and lengths of rows than the traced example, swaps rows and drops a source."""
    exported, own = OnnxBackend(out).stepper, TorchStepper(model)
    source_BS = make_batch(lengths).source_BS
    count = len(lengths) * 2
    generator = torch.Generator().manual_seed(3)
    tokens_R, swap_R = torch.full((count,), model.start_id), torch.arange(count) // 2 * 2
    with torch.no_grad():
        states: tuple[Any, Any] = own.start(source_BS, 2), exported.start(source_BS, 2)
        for step in range(steps):
            expected, first = own.step(tokens_R, states[0])
            found, second = exported.step(tokens_R, states[1])
            torch.testing.assert_close(found.full(), expected.full(), rtol=1e-5, atol=1e-4)
            tokens_R = torch.randint(4, 23, (len(tokens_R),), generator=generator)
            if step == 1:
                first, second = own.reorder(first, swap_R), exported.reorder(second, swap_R)
            if step == 3:
                kept = torch.tensor([2, 0])
                first, second, tokens_R = own.keep(first, kept), exported.keep(second, kept), tokens_R[:4]
            states = first, second
    source_BS = make_batch((4, 8)).source_BS
    with torch.no_grad():
        expected_found = beam_search(own, source_BS, SEARCH, model.start_id)
    found_found = beam_search(exported, source_BS, SEARCH, model.start_id)
    assert [[each.tokens for each in some] for some in found_found] == [
        [each.tokens for each in some] for some in expected_found
    ]


@every_system
def test_every_system(system: str, tmp_path: Path) -> None:
    model = small(system)
    export_onnx(model, TEXT, SEARCH, tmp_path / "onnx")
    check_steps(model, tmp_path / "onnx")


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_every_variant(variant: Any, tmp_path: Path) -> None:
    model = build_combination(variant)
    export_onnx(model, TEXT, SEARCH, tmp_path / "onnx")
    check_steps(model, tmp_path / "onnx", (3, 40, 1), steps=5)


@pytest.mark.slow
def test_a_shifted_start_and_separate_vocabularies(tmp_path: Path) -> None:
    model = small("transformer-post", start_id=2, first_position=2, share_embeddings="none")
    export_onnx(model, TEXT, SEARCH, tmp_path / "onnx")
    check_steps(model, tmp_path / "onnx")


@pytest.mark.slow
def test_documents_have_any_number_of_sentences(tmp_path: Path) -> None:
    model = small("hierarchical")
    export_onnx(model, TEXT, SEARCH, tmp_path / "onnx")
    source_BS = make_batch((9, 4)).source_BS
    source_BS[0, [2, 5]] = BOS
    tokens_R = torch.full((2,), model.start_id)
    with torch.no_grad():
        own, exported = TorchStepper(model), OnnxBackend(tmp_path / "onnx").stepper
        expected, found = (each.step(tokens_R, each.start(source_BS, 1))[0].full() for each in (own, exported))
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-4)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("onnx")
    save(small("surface-fusion"), place / "model")
    result = run_lamina("export", place / "model", "--to", "onnx", "--out", place / "onnx")
    assert result == (
        0,
        f"{place / 'onnx'}: {place / 'model'} exported to onnx\n",
        f"Next: cat {place / 'onnx' / 'README.md'}\n",
    )
    return place


def test_contents_of_the_folder(folder: Path) -> None:
    names = {path.name for path in (folder / "onnx").iterdir()}
    assert names == {
        *("encoder.onnx", "decoder.onnx", "onnx.json", "run.py", "README.md", "text.json"),
        *("vocabulary.source.txt", "vocabulary.target.txt"),
    }
    import onnx

    for name in ("encoder.onnx", "decoder.onnx"):
        graph = onnx.load(folder / "onnx" / name)
        onnx.checker.check_model(graph, full_check=True)
        assert [each.version for each in graph.opset_import] == [18]
    assert json.loads((folder / "onnx" / "onnx.json").read_text())["opset"] == 18


def run_script(folder: Path, text: bytes, *options: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-I", folder / "run.py", "--threads", "1", *options]
    return subprocess.run(command, input=text, capture_output=True, check=False)


@pytest.mark.parametrize("beam", [1, 5])
def test_the_script_translates_like_lamina(folder: Path, beam: int) -> None:
    """Runs in Python's isolated mode."""
    text = "".join(f"{line}\n" for line in SENTENCES)
    result = run_script(folder / "onnx", text.encode(), "--beam", str(beam))
    assert result.returncode == 0, result.stderr
    own = load(folder / "model").translate(SENTENCES, beam=beam)
    assert result.stdout.decode() == "".join(f"{each.text}\n" for each in own)


def pieces() -> TextPipeline:
    lines = [f"The {a} {b} sees the {c}. Dr. No! 3 dogs?" for a in "abc" for b in ("runs", "sings") for c in "xyz"]
    return make_pipeline("sentencepiece", ("en", "de"), False, {"subwords.model": learn_sentencepiece(lines, 300)})


def bpe() -> TextPipeline:
    words = TEXT.files["vocabulary.source.txt"]
    files = {"bpe.codes": b"#version: 0.2\nw 1</w>\n", "vocabulary.source.txt": words, "vocabulary.target.txt": words}
    return make_pipeline("bpe", ("en", "de"), True, files)


DOCUMENTS = [
    "The dog runs. A cat sings! “3 birds?” (Yes.) see it.  Dr. No sleeps… Über all, e.g. J. Smith.",
    "one line ⏎ another ⏎⏎ w1. w2 W3. ",
    "",
    " ⏎ ",
    "w1 w2. W3 " * 30,
]


@pytest.mark.parametrize("split", [True, False])
@pytest.mark.parametrize("make", [pieces, bpe, lambda: TEXT], ids=["sentencepiece", "bpe", "words"])
def test_the_script_encodes_like_lamina(make: Callable[[], TextPipeline], split: bool, tmp_path: Path) -> None:
    """Sentence boundaries and truncation as in training."""
    from lamina.interop.onnx import run

    text = make().for_documents(split, 24)
    text.save(tmp_path)
    encode, _ = run.open_text(tmp_path)
    expected = [text.source.truncate(ids) for ids in text.source.encode(DOCUMENTS)]
    assert [encode(line) for line in DOCUMENTS] == expected
    assert [len(ids) for ids in expected][2:] == [1, 1 if split else len(expected[3]), 24]
    assert (BOS in expected[0]) is split
    for name in ("ENDING", "ABBREVIATION", "LINE_BREAK"):
        assert getattr(run, name) == getattr(sentences, name)


def test_the_script_escapes_special_symbols(tmp_path: Path) -> None:
    from lamina.interop.onnx import run

    vocabulary = Vocabulary((*SPECIALS, "w1", "\\</s>", "\\\\<s>"))
    text = pipeline_of_words(Vocabularies(vocabulary, vocabulary))
    text.save(tmp_path)
    encode, decode = run.open_text(tmp_path)
    line = "w1 </s> \\<s> <s> <unk> w1"
    assert [encode(line)] == text.source.encode([line]) == [[4, 5, 6, UNK, UNK, 4, EOS]]
    assert decode([5, 4, 6, EOS]) == text.target.decode([5, 4, 6, EOS]) == "</s> w1 \\<s>"


def test_the_script_truncates_long_lines(folder: Path) -> None:
    from lamina.interop.onnx import run

    encode, _ = run.open_text(folder / "onnx")
    lines = ["w1 " * 1023, "w1 " * 1024, "w1 " * 2000]
    assert [encode(line) for line in lines] == load(folder / "onnx").encode(lines)[0]
    assert [len(encode(line)) for line in lines] == [1024, 1024, 1024]


@pytest.mark.slow
def test_the_script_translates_documents_like_lamina(tmp_path: Path) -> None:
    text = TEXT.for_documents(True, 8)
    write_model_folder(tmp_path / "model", small("hierarchical"), text, "Made by a test.")
    assert run_lamina("export", tmp_path / "model", "--to", "onnx", "--out", tmp_path / "onnx").returncode == 0
    lines = ["w1 w2 ⏎ w3 w4", "w5. 7 w6", "w1 ⏎ w2 ⏎ w3 ⏎ w4 ⏎ w5 ⏎ w6 ⏎ w7"]
    result = run_script(tmp_path / "onnx", "".join(f"{line}\n" for line in lines).encode())
    own = load(tmp_path / "model").translate(lines)
    assert (result.returncode, result.stdout.decode()) == (0, "".join(f"{each.text}\n" for each in own))


def test_the_script_imports_no_torch_and_no_lamina(folder: Path) -> None:
    code = (
        "import runpy, sys; runpy.run_path(sys.argv[1], run_name='run');"
        "assert not {'torch', 'lamina'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-I", "-c", code, folder / "onnx" / "run.py"], check=True)


def test_translate_opens_the_folder(folder: Path) -> None:
    text = "".join(f"{line}\n" for line in SENTENCES)
    expected = run_lamina("translate", folder / "model", "--format", "tsv", "--nbest", "2", stdin=text)
    found = run_lamina("translate", folder / "onnx", "--format", "tsv", "--nbest", "2", stdin=text)
    cells = [[line.split("\t") for line in result.stdout.splitlines()] for result in (found, expected)]
    assert [(n, words) for n, _, words in cells[0]] == [(n, words) for n, _, words in cells[1]]
    for (_, one, _), (_, other, _) in zip(*cells, strict=True):
        assert float(one) == pytest.approx(float(other), abs=1e-4)


def test_sampling_and_prefixes(folder: Path) -> None:
    own, exported = load(folder / "model"), load(folder / "onnx")
    for search in ({"prefixes": ["w5 w6"]}, {"no_repeat_ngram": 2, "beam": 3}, {"diverse_groups": 2, "beam": 4}):
        assert exported.translate(["w1 w2"], **search)[0].text == own.translate(["w1 w2"], **search)[0].text


@pytest.mark.slow
def test_int8_is_smaller_and_close(folder: Path, tmp_path: Path) -> None:
    model = small("msc", d_model=64, ffn_size=256)
    for int8 in (False, True):
        export_onnx(model, TEXT, SEARCH, tmp_path / str(int8), int8)
    full, small_one = ((tmp_path / str(int8) / "encoder.onnx").stat().st_size for int8 in (False, True))
    assert small_one < 0.6 * full
    source_BS = make_batch().source_BS
    scores = []
    for int8 in (False, True):
        stepper = OnnxBackend(tmp_path / str(int8)).stepper
        scores.append(stepper.step(torch.zeros(3, dtype=torch.long), stepper.start(source_BS, 1))[0].full())
    torch.testing.assert_close(scores[0], scores[1], rtol=0, atol=0.3)
    assert not torch.equal(*scores)


def test_mistakes_are_one_line(folder: Path, tmp_path: Path) -> None:
    onnx, model = folder / "onnx", folder / "model"
    assert run_lamina("translate", onnx, model, stdin="w1\n") == (
        2,
        "",
        f"lamina: {onnx}: is an ONNX export, which cannot be part of an ensemble; use the run instead.\n",
    )
    assert run_lamina("translate", onnx, "--int8", stdin="w1\n") == (
        2,
        "",
        f"lamina: {onnx}: is an ONNX export; to run it in 8 bits, export it with `lamina export --int8`.\n",
    )
    assert run_lamina("export", onnx, "--to", "onnx", "--out", tmp_path / "again") == (
        3,
        "",
        f"lamina: {onnx}: is an ONNX export, which can only translate; use the run that was exported.\n",
    )
    (tmp_path / "a").write_text("w1\n")
    assert run_lamina("rescore", onnx, "--source", tmp_path / "a", "--target", tmp_path / "a") == (
        2,
        "",
        "lamina: An ONNX export can only translate; use the run or model folder that was exported.\n",
    )


def damage(folder: Path, tmp_path: Path, name: str, content: bytes | None) -> Path:
    """A copy of the export with one file replaced or removed."""
    broken = tmp_path / "broken"
    shutil.copytree(folder / "onnx", broken)
    (broken / name).unlink()
    if content is not None:
        (broken / name).write_bytes(content)
    return broken


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("decoder.onnx", b"nonsense", "damaged (SHA-256 does not match onnx.json)."),
        ("decoder.onnx", None, "not found, but onnx.json lists it."),
        ("text.json", b"{}", "damaged (SHA-256 does not match onnx.json)."),
        ("onnx.json", b"{", "not JSON ("),
        ("onnx.json", b"{}", "format: is required. Export the model again."),
    ],
)
def test_damage_is_named(folder: Path, tmp_path: Path, name: str, content: bytes | None, message: str) -> None:
    broken = damage(folder, tmp_path, name, content)
    result = run_lamina("translate", broken, stdin="w1\n")
    assert result.returncode == 3
    assert result.stderr.startswith(f"lamina: {broken / name}: {message}")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("decoder.onnx", b"nonsense", "damaged (SHA-256 does not match onnx.json).\n"),
        ("vocabulary.target.txt", None, "not found, but onnx.json lists it.\n"),
        ("onnx.json", b"{", "cannot be read (Expecting property name"),
        ("onnx.json", b"{}", "cannot be read ('sha256').\n"),
        ("onnx.json", b"[]", "cannot be read ("),
        ("onnx.json", None, "cannot be read ([Errno 2]"),
    ],
)
def test_the_script_names_damage(folder: Path, tmp_path: Path, name: str, content: bytes | None, message: str) -> None:
    broken = damage(folder, tmp_path, name, content)
    result = run_script(broken, b"w1\n")
    assert (result.returncode, result.stdout) == (3, b"")
    assert result.stderr.decode().startswith(f"run.py: {broken / name}: {message}")
    assert result.stderr.count(b"\n") == 1


def test_the_script_names_text_that_is_not_utf8(folder: Path) -> None:
    result = run_script(folder / "onnx", b"w1\nw2\xff\n")
    assert (result.returncode, result.stdout) == (3, b"")
    assert result.stderr == b"run.py: stdin:2: not UTF-8 (byte 0xff at column 3).\n"


def test_the_extra_is_named(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    result = run_lamina("export", folder / "model", "--to", "onnx", "--out", tmp_path / "out")
    assert result == (5, "", "lamina: --to onnx needs an extra: pip install 'lamina[onnx]'\n")
