"""Parts of pages."""

from __future__ import annotations

from dataclasses import replace

from lamina.analysis.sections import score_section
from lamina.scoring.compare import Row
from lamina.scoring.protocol import Interval


def test_a_single_system_is_compared_with_nothing() -> None:
    alone = Row("plain", "BLEU", 30.0, Interval(29.0, 31.0), "signature")
    text = score_section([alone])
    assert "29.0 to 31.0" in text
    assert "difference" not in text
    other = replace(alone, system="fused", difference=1.0, p_bootstrap=0.01)
    assert "+1.00" in score_section([alone, other])
