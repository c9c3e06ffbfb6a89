"""Sections of pages."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from lamina.analysis.sections import comparable, marked, score_section, training_caption, verdict
from lamina.scoring.compare import Row
from lamina.scoring.protocol import Interval
from lamina.store.history import Records


def test_a_single_system_has_no_comparison() -> None:
    alone = Row("plain", "BLEU", 30.0, Interval(29.0, 31.0), "signature")
    text = score_section([alone])
    assert "30.00 (29.0–31.0)" in text
    assert "difference" not in text
    other = replace(alone, system="fused", difference=1.0, p_bootstrap=0.01)
    assert "+1.00" in score_section([alone, other])


def test_a_verdict_follows_significance() -> None:
    plain = Row("plain", "bleu", 30.0, Interval(29.0, 31.0), "signature")
    fused = replace(plain, system="fused", score=30.3, difference=0.3, p_bootstrap=0.752)
    assert verdict(plain, fused).startswith("No significant difference in BLEU between fused and plain (p = 0.75)")
    better = replace(fused, score=32.0, difference=2.0, p_bootstrap=0.004)
    assert verdict(plain, better).startswith("fused is significantly better than plain in BLEU (p = 0.004)")
    errors = replace(better, metric="ter", higher_is_better=False)
    assert "significantly worse" in verdict(plain, errors)


def test_missing_words_are_marked() -> None:
    gap = '<mark class="gap" title="missing: {}">␣</mark>'
    expected = f"Ich sehe {gap.format('den')} Hund {gap.format('nicht')}"
    assert marked("Ich sehe Hund", "Ich sehe den Hund nicht") == expected
    assert marked("eine Katze", "ein Hund") == "<mark>eine Katze</mark>"


def test_only_comparable_training_losses_share_a_chart() -> None:
    plain, hard, new = (
        Records(Path("plain"), [{"kind": "valid", "step": 1, "nll": 2.0}]),
        Records(Path("hard"), [{"kind": "valid", "step": 1, "nll": 2.5, "normalised_nll": 2.0}]),
        Records(Path("new"), [{"kind": "train", "step": 1, "nll": 3.0}]),
    )
    runs = {"plain": plain, "hard": hard, "new": new}
    assert list(comparable(runs)) == ["plain"]
    caption = training_caption(runs)
    assert "hard not shown: not normalised in training" in caption
    assert "new not shown: not validated yet" in caption
    assert list(comparable({"hard": hard, "new": new})) == ["hard", "new"]
