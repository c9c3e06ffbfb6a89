"""ROUGE-1, ROUGE-2 and ROUGE-L (Lin 2004): F1 of shared words, word pairs and the longest common subsequence, × 100.

Computed by Google's `rouge-score` with its Porter stemmer. The corpus score is the mean over sentences; with several
references, the one with the best F1 counts, separately for each sentence and measure. `rouge` reports ROUGE-L, with the
other two in the details; comparisons expand it to all three, each with its own interval and p-value. The tokenizer
keeps only lower-cased a–z and 0–9: it is made for English, and references in another script are rejected because every
output would score 0.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from lamina.errors import DataError, MissingExtraError
from lamina.scoring.protocol import Array, Gold

MEASURES = ("rouge1", "rouge2", "rougeL")


class Rouge:
    """Statistics are the three F1 scores and a constant 1, which counts sentences."""

    name = "rouge"
    measure = "rougeL"  # the reported score
    higher_is_better = True

    def __init__(self, gold: Gold) -> None:
        self._scorer = make_scorer()
        if not any(re.search("[A-Za-z0-9]", line) for reference in gold.references for line in reference):
            raise DataError("ROUGE counts only a–z and 0–9, and the references contain none of them; use chrf.")
        self.sentences = len(gold.references[0])
        self._references = list(zip(*gold.references, strict=True))

    @property
    def signature(self) -> str:
        """Includes the package's version."""
        from importlib.metadata import version

        refs = len(self._references[0])
        kind = self.measure.removeprefix("rouge")
        return f"ROUGE-{kind} F1|nrefs:{refs}|refs:best|case:lc|stemmer:porter|rouge-score:{version('rouge-score')}"

    def statistics(self, hypotheses: Sequence[str]) -> Array:
        """One row per sentence."""
        pairs = zip(hypotheses, self._references, strict=True)
        return np.array([measure_line(self._scorer, line, references) for line, references in pairs], np.float64)

    def scores(self, sums_SK: Array) -> Array:
        """The mean F1 × 100."""
        return 100 * sums_SK[:, MEASURES.index(self.measure)] / sums_SK[:, 3]

    def details(self, sums_K: Array) -> dict[str, float]:
        """Mean F1 of all three measures."""
        return {measure: 100 * float(sums_K[at] / sums_K[3]) for at, measure in enumerate(MEASURES)}


class RougeOne(Rouge):
    """F1 of unigrams."""

    name, measure = "rouge-1", "rouge1"


class RougeTwo(Rouge):
    """F1 of bigrams."""

    name, measure = "rouge-2", "rouge2"


class RougeLongest(Rouge):
    """F1 of the longest common subsequence."""

    name = "rouge-l"


def make_scorer() -> Any:
    """Return the scorer of `rouge-score`, an optional dependency."""
    try:
        from rouge_score.rouge_scorer import RougeScorer  # type: ignore[import-untyped]
    except ImportError as error:
        raise MissingExtraError("ROUGE", "rouge") from error
    return shared_scorer(RougeScorer)


@lru_cache
def shared_scorer(kind: Any) -> Any:
    """Build one scorer for all metrics, so that they share the cache of `measure_line`."""
    return kind(list(MEASURES), use_stemmer=True)


@lru_cache(maxsize=2**17)
def measure_line(scorer: Any, line: str, references: tuple[str, ...]) -> tuple[float, ...]:
    """Statistics of one sentence: the three F1 scores and a 1."""
    found = scorer.score_multi(list(references), line)
    return (*(found[measure].fmeasure for measure in MEASURES), 1.0)
