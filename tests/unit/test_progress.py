"""Training progress: a bar per run on a terminal, otherwise a line per tenth."""

from __future__ import annotations

import io
import sys

import pytest

from lamina.base.progress import tracked
from lamina.cli.progress import show_training
from lamina.training.reporters import describe_step, describe_validation


class Terminal(io.StringIO):
    """Records all output."""

    def isatty(self) -> bool:
        return True


def run_two(steps: int) -> None:
    with show_training() as show:
        for step in range(1, steps + 1):
            show("plain", step, steps, 5.0 / step)
            show("fused", step, steps, None if step < 4 else 6.0 / step)


def test_a_terminal_has_one_bar_per_run(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    run_two(20)
    picture = terminal.getvalue().rpartition("plain  normalised validation perplexity 0.25")[2]  # the last frame
    assert "fused  normalised validation perplexity 0.30" in picture
    assert picture.count("perplexity") == 1


def test_without_a_terminal_each_tenth_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    run_two(20)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].strip() == "plain: step 2 of 20, normalised validation perplexity 2.50"
    assert lines[1].strip() == "fused: step 2 of 20"
    assert lines[-1].strip() == "fused: step 20 of 20, normalised validation perplexity 0.30"
    assert len(lines) == 20


def test_lines_of_training_and_validation() -> None:
    """ppl is e^nll, not e^loss, which is smoothed; the normalised one belongs to ppl, not to BLEU."""
    record = {"step": 9, "epoch": 1, "loss": 6.1, "nll": 2.0, "lr": 0.001, "tokens_per_second": 1234, "best": True}
    losses = "loss 6.1000  nll 2.0000  ppl 7.39"
    assert describe_step(record, None) == f"step 9  epoch 1  {losses}  lr 1.00e-03  1,234 tok/s"
    valid = record | {"normalised_nll": 1.5, "normalised_perplexity": 4.48, "bleu": 0.0}
    assert describe_validation(valid) == f"step 9  valid {losses} (normalised 4.48)  bleu 0.00  best"


def test_a_perplexity_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    with show_training() as show:
        for step, valid in enumerate((None, 9.0, 9.0, 7.0), start=1):
            show("plain", step, 4, valid)
    found = [line.strip() for line in capsys.readouterr().err.splitlines()]
    perplexities = ["", ", normalised validation perplexity 9.00", "", ", normalised validation perplexity 7.00"]
    assert found == [f"plain: step {step} of 4{text}" for step, text in enumerate(perplexities, start=1)]


def test_items_are_reported_before_they_are_done() -> None:
    seen: list[object] = []
    items = tracked("ab", "drawing", lambda stage, done, total: seen.append((stage, done, total)))
    seen.extend(items)
    assert seen == [("drawing", 0, 2), "a", ("drawing", 1, 2), "b", ("drawing", 2, 2)]
