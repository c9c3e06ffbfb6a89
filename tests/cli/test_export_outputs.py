"""Trained models in other engines: beam-5 outputs of 200 demo sentences are Lamina's, line by line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from lamina.demo.grammar import write_demo
from lamina.systems.published import SYSTEMS
from lamina.translation import load
from support import run_lamina

TRAINING = "train: {max_steps: 120, batch_tokens: 1024, lr: 2.0e-3, warmup: 40, save_every: 120, validate_every: 120}\n"
SIZES = "{size: tiny, d_model: 64, ffn_size: 128, encoder: {layers: 2}, decoder: {layers: 2}}"
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo")
    write_demo(folder, train=4000, valid=50, test=200)
    files = [folder / f"{split}.{language}" for split in ("train", "valid") for language in ("en", "de")]
    done = run_lamina("prepare", "--train", *files[:2], "--valid", *files[2:], "--out", folder / "data")
    assert done.returncode == 0, done.stderr
    return folder


def trained(demo: Path, system: str) -> Path:
    run = demo / "runs" / system
    if not run.exists():
        (demo / f"{system}.yaml").write_text(f"name: {system}\nsystem: {system}\nmodel: {SIZES}\n{TRAINING}")
        done = run_lamina("train", demo / f"{system}.yaml", "--data", demo / "data", "--out", run)
        assert done.returncode == 0, done.stderr
    return run


@pytest.mark.parametrize("system", SYSTEMS)
def test_onnx(system: str, demo: Path) -> None:
    pytest.importorskip("onnxruntime")
    run, out = trained(demo, system), demo / f"{system}-onnx"
    assert run_lamina("export", run, "--to", "onnx", "--out", out).returncode == 0
    lines = (demo / "test.en").read_text().splitlines()
    expected = [each.text for each in load(run).translate(lines, beam=5)]
    assert [each.text for each in load(out).translate(lines, beam=5)] == expected
    command = [sys.executable, "-I", out / "run.py", "--beam", "5"]
    script = subprocess.run(command, input=(demo / "test.en").read_bytes(), capture_output=True, check=True)
    assert script.stdout.decode().splitlines() == expected


@pytest.mark.parametrize("system", ["transformer", "transformer-post"])
def test_transformers(system: str, demo: Path) -> None:
    transformers = pytest.importorskip("transformers")
    run, out = trained(demo, system), demo / f"{system}-huggingface"
    assert run_lamina("export", run, "--to", "huggingface", "--out", out).returncode == 0
    lines = (demo / "test.en").read_text().splitlines()
    tokenizer = transformers.AutoTokenizer.from_pretrained(out)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(out).eval()
    written: list[str] = []
    for first in range(0, len(lines), 50):
        batch = tokenizer(lines[first : first + 50], return_tensors="pt", padding=True)
        with torch.inference_mode():
            written += tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True)
    assert written == [each.text for each in load(run).translate(lines)]
