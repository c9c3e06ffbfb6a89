"""Trained models exported to other engines give Lamina's beam-5 outputs for 200 demo sentences."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.utils.rnn import pad_sequence

from lamina.corpus.prepared import PreparedData
from lamina.demo.grammar import write_demo
from lamina.recipe.decode import SearchSettings
from lamina.search.stepper import TorchStepper
from lamina.store.loading import load_run
from lamina.store.model_folder import write_model_folder
from lamina.systems.build import build
from lamina.systems.published import SYSTEMS
from lamina.translation import Translation, load
from lamina.translation.onnx import OnnxBackend
from support import check_agreement, run_lamina, scramble, search_in_double

TRAINING: dict[str, Any] = {"batch_tokens": 512, "lr": 4e-3, "warmup": 40}
LIMIT = (0.0, 256)  # maximum length of outputs in transformers and CTranslate2
SIZES: dict[str, Any] = {"d_model": 64, "ffn_size": 128, "encoder": {"layers": 2}, "decoder": {"layers": 2}}
SCRIPT_PYTHON = os.environ.get("ONNX_PYTHON", sys.executable)  # or one with onnxruntime, numpy and sentencepiece only
ARGOS_PROGRAM = """
import sys
from argostranslate import package, sbd, translate
sbd.MiniSBDSentencizer.split_sentences = lambda self, text: [text]  # its models would be downloaded
package.install_from_path(sys.argv[1])
for line in sys.stdin:
    print(translate.translate(line.rstrip(), "en", "de"))
"""
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo")
    write_demo(folder, train=4000, valid=50, test=200)
    files = [folder / f"{split}.{language}" for split in ("train", "valid") for language in ("en", "de")]
    done = run_lamina("prepare", "--train", *files[:2], "--valid", *files[2:], "--out", folder / "data")
    assert done.returncode == 0, done.stderr
    return folder


def trained(demo: Path, system: str, steps: int = 200) -> Path:
    run, recipe = demo / "runs" / f"{system}-{steps}", demo / f"{system}.yaml"
    if not run.exists():
        sizes, start = SIZES, list[str | Path]()
        if system == "depth-growing":
            sizes = {**SIZES, "encoder": {"layers": 3}, "decoder": {"layers": 3}}
            start = ["--grow-from", trained(demo, "transformer-post")]
        train = {**TRAINING, "max_steps": steps, "save_every": steps, "validate_every": steps}
        recipe.write_text(json.dumps({"name": system, "system": system, "model": sizes, "train": train}))
        done = run_lamina("train", recipe, "--data", demo / "data", "--out", run, *start)
        assert done.returncode == 0, done.stderr
    return run


def random(demo: Path, system: str) -> Path:
    """The same model untrained, with larger weights, so that outputs differ between sources."""
    folder = demo / "random" / system
    if not folder.exists():
        torch.manual_seed(2)
        text = PreparedData(demo / "data").text
        model = scramble(
            build(system, size="tiny", vocab_size=len(text.source.vocabulary), dropout=0.0, **SIZES).eval()
        )
        write_model_folder(folder, model, text, "Made by a test.", SearchSettings(beam=5, max_length=(1.0, 5)))
    return folder


def check_texts(run: Path, lines: list[str], ours: list[str], theirs: list[str], **search: Any) -> None:
    """Check that both are the same, apart from what rounding decides."""
    loaded = load_run(run)

    def exact(number: int) -> str:
        (source,) = loaded.text.source.encode([lines[number]])
        best = search_in_double(loaded.model.eval(), source, loaded.decode.with_options(**search))[0]
        return loaded.text.target.decode(best.tokens)

    check_agreement(ours, theirs, exact)


def check_steps(run: Path, out: Path, lines: list[str], outputs: list[Translation]) -> None:
    """Check that both give the same log-probabilities of all tokens along the translations."""
    loaded = load_run(run)
    own, exported = TorchStepper(loaded.model), OnnxBackend(out).stepper
    pad = partial(pad_sequence, batch_first=True, padding_value=loaded.model.pad_id)
    source_BS = pad([torch.tensor(ids) for ids in loaded.text.source.encode(lines)])
    written_BT = pad([torch.tensor(loaded.text.target.vocabulary.encode(each.tokens)) for each in outputs])
    tokens_B = torch.full((len(lines),), loaded.model.start_id)
    with torch.no_grad():
        states: tuple[Any, Any] = own.start(source_BS, 1), exported.start(source_BS, 1)
        for next_B in written_BT.T:
            expected, first = own.step(tokens_B, states[0])
            found, second = exported.step(tokens_B, states[1])
            torch.testing.assert_close(found.full(), expected.full(), rtol=1e-5, atol=1e-4)
            tokens_B, states = next_B, (first, second)


def lines_of(output: bytes) -> list[str]:
    """Lines that end with a newline: a random model may also write other line separators."""
    return output.decode().removesuffix("\n").split("\n")


@pytest.mark.parametrize("make", [trained, random])
@pytest.mark.parametrize("system", SYSTEMS)
def test_onnx(system: str, make: Callable[[Path, str], Path], demo: Path) -> None:
    pytest.importorskip("onnxruntime")
    run, out = make(demo, system), demo / f"{system}-{make.__name__}-onnx"
    assert run_lamina("export", run, "--to", "onnx", "--out", out).returncode == 0
    lines = (demo / "test.en").read_text().splitlines()
    outputs = load(run).translate(lines, beam=5)
    check_steps(run, out, lines[:20], outputs[:20])
    found = load(out).translate(lines, beam=5)
    check_texts(run, lines, [each.text for each in outputs], [each.text for each in found], beam=5)
    assert len({each.text for each in outputs}) > 50  # they depend on their sources
    command = [SCRIPT_PYTHON, "-I", out / "run.py", "--beam", "5", "--threads", "1"]
    script = subprocess.run(command, input=(demo / "test.en").read_bytes(), capture_output=True, check=True)
    check_texts(run, lines, [each.text for each in found], lines_of(script.stdout), beam=5)


@pytest.mark.parametrize("system", ["transformer", "transformer-post"])
def test_transformers(system: str, demo: Path) -> None:
    """With models that end their outputs: at the maximum length, the searches rank unfinished ones differently."""
    transformers = pytest.importorskip("transformers")
    run, out = trained(demo, system, steps=700), demo / f"{system}-huggingface"
    assert run_lamina("export", run, "--to", "huggingface", "--out", out).returncode == 0
    lines = (demo / "test.en").read_text().splitlines()
    tokenizer = transformers.AutoTokenizer.from_pretrained(out)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(out).eval()
    written: list[str] = []
    for first in range(0, len(lines), 50):
        batch = tokenizer(lines[first : first + 50], return_tensors="pt", padding=True)
        with torch.inference_mode():
            written += tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True)
    found = load(run).translate(lines, max_length=LIMIT)
    check_texts(run, lines, [each.text for each in found], written, max_length=LIMIT)


def test_argostranslate(demo: Path, tmp_path: Path) -> None:
    """Runs in the separate environment `ARGOS_PYTHON`, since Argos Translate pins sacremoses."""
    python = os.environ.get("ARGOS_PYTHON")
    if python is None:
        pytest.skip("set ARGOS_PYTHON to a Python that has argostranslate")
    run, out = trained(demo, "transformer", steps=700), tmp_path / "en-de.argosmodel"
    assert run_lamina("export", run, "--to", "argos", "--out", out).returncode == 0
    places = dict.fromkeys(("HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"), str(tmp_path))
    environment = {**os.environ, **places, "ARGOS_COMPUTE_TYPE": "float32"}  # its default on a CPU is int8
    source = (demo / "test.en").read_bytes()
    done = subprocess.run(
        [python, "-I", "-c", ARGOS_PROGRAM, out], input=source, env=environment, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    settings: dict[str, Any] = {"beam": 4, "lenpen": 0.2, "max_length": LIMIT}  # Argos Translate's own
    lines = source.decode().splitlines()
    expected = load(run).translate(lines, **settings)
    check_texts(run, lines, [each.text for each in expected], lines_of(done.stdout), **settings)
