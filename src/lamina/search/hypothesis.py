"""A finished output of a search."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Hypothesis:
    """The tokens of an output, ending with eos, with their log p and score."""

    tokens: list[int]
    log_prob: float
    score: float
