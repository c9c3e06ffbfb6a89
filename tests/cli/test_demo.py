"""`lamina demo` at a small size, and at full size in the slow suite."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from lamina.cli.demo import shortest_success
from lamina.demo.story import DemoSize
from support import Finished, run_lamina


def run_small(out: Path, monkeypatch: pytest.MonkeyPatch, steps: int = 12) -> Finished:
    monkeypatch.setattr(
        "lamina.demo.story.DemoSize", lambda train, steps: DemoSize(train, valid=12, test=12, steps=steps)
    )
    return run_lamina("demo", "--out", out, "--steps", str(steps), "--pairs", "120")


def test_the_demo_writes_its_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "demo"
    first = run_small(out, monkeypatch)
    assert first.returncode == 0, first.stderr
    assert re.search(r"^source +\S.*\nplain +.*\nfused +.*\nreference +\S", first.stdout, flags=re.M)
    assert re.search(r"^bleu +fused +\d+\.\d\d ± \d", first.stdout, flags=re.M)
    assert first.stdout.endswith(f"Report: {out / 'report.html'}\n")
    page = (out / "report.html").read_text()
    assert all(
        heading in page
        for heading in ("Scores", "Sentences", "Training", "Gradient norm", "layer 4", "Attention", "reader")
    )
    assert not re.search(r"(?:src|href)=\"(?!data:|#)|@import|url\(", page)


def test_the_suggested_sentence_is_translated_correctly() -> None:
    sources, references = ["a", "an apple", "apples"], ["ein", "ein Apfel", "Äpfel"]
    assert shortest_success(sources, ["eine", "ein Apfel", "Äpfel"], references) == "apples"
    assert shortest_success(sources, ["?", "?", "?"], references) == "a"


@pytest.mark.slow
def test_a_failed_training_reports_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lamina.demo.story.SYSTEMS", {"plain": "demo-transformer", "fused": "no-such-recipe"})
    result = run_small(tmp_path / "demo", monkeypatch)
    assert result.returncode == 2
    assert result.stderr.splitlines()[-1].startswith(f"lamina: {tmp_path / 'demo' / 'runs' / 'fused.log'}: ")
    assert "no-such-recipe" in result.stderr


@pytest.mark.slow
def test_an_interrupted_demo_resumes(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "lamina", "demo", "--out", str(tmp_path), "--steps", "60", "--pairs", "500"]
    heed = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # background jobs of a shell ignore SIGINT
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=heed) as process:
        deadline = time.monotonic() + 120
        while not list(tmp_path.glob("runs/*/metrics.jsonl")) and time.monotonic() < deadline:
            time.sleep(0.2)
        process.send_signal(2)
        _, said = process.communicate()
    assert process.returncode == 130
    assert said.splitlines()[-1] == "lamina: Stopped and saved; rerun the same command to resume."
    first = subprocess.run(command, check=True, capture_output=True)
    weights = [tmp_path / "runs" / name / "model" / "model.safetensors" for name in ("plain", "fused")]
    before = [path.read_bytes() for path in weights]
    assert subprocess.run(command, check=True, capture_output=True).stdout == first.stdout
    assert [path.read_bytes() for path in weights] == before


@pytest.mark.slow
def test_the_fused_model_scores_higher(tmp_path: Path) -> None:
    result = run_lamina("demo", "--out", tmp_path)
    assert result.returncode == 0, result.stderr
    scores = [float(score) for score in re.findall(r"^bleu +\w+ +(\S+)", result.stdout, flags=re.M)]
    plain, fused = scores
    assert fused > max(60, plain + 5)
