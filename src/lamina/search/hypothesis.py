"""A finished output of a search."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Hypothesis:
    """Tokens, eos last, with their log p and score."""

    tokens: list[int]
    log_prob: float
    score: float
