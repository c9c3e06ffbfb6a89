"""ROUGE-1, ROUGE-2 and ROUGE-L (Lin 2004): F1 of shared words, word pairs and the longest common subsequence, × 100.

Computed by Google's `rouge-score`, with its Porter stemmer. The corpus score is the mean over sentences; of several
references the one with the best F1 counts, for each sentence and each of the three measures by itself. The score that
is compared is ROUGE-L; the other two are in the details. The tokeniser keeps lower-cased a–z and 0–9 only: it is made
for English, and a text in another script would score 0 whatever it says, which is refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from lamina.errors import DataError, MissingExtraError
from lamina.scoring.protocol import Array, Gold

MEASURES = ("rouge1", "rouge2", "rougeL")


class Rouge:
    """Statistics are the three F1 and a one, which counts sentences."""

    name = "rouge"
    higher_is_better = True

    def __init__(self, gold: Gold) -> None:
        try:
            from rouge_score.rouge_scorer import RougeScorer  # type: ignore[import-untyped]
        except ImportError as error:
            raise MissingExtraError("ROUGE", "rouge") from error
        if not any(re.search("[A-Za-z0-9]", line) for reference in gold.references for line in reference):
            raise DataError("ROUGE sees a–z and 0–9 only, and no reference has any of them.")
        self.sentences = len(gold.references[0])
        self._references = list(zip(*gold.references, strict=True))
        self._scorer = RougeScorer(list(MEASURES), use_stemmer=True)

    @property
    def signature(self) -> str:
        """Includes the package's version."""
        from importlib.metadata import version

        refs = len(self._references[0])
        return f"ROUGE-L F1|nrefs:{refs}|refs:best|case:lc|stemmer:porter|rouge-score:{version('rouge-score')}"

    def statistics(self, hypotheses: Sequence[str]) -> Array:
        """One row per sentence."""
        rows = []
        for line, references in zip(hypotheses, self._references, strict=True):
            found = self._scorer.score_multi(list(references), line)
            rows.append([*(found[measure].fmeasure for measure in MEASURES), 1.0])
        return np.array(rows, dtype=np.float64)

    def scores(self, sums_SK: Array) -> Array:
        """The mean F1 of ROUGE-L × 100."""
        return 100 * sums_SK[:, 2] / sums_SK[:, 3]

    def details(self, sums_K: Array) -> dict[str, float]:
        """All three."""
        return {measure: 100 * float(sums_K[at] / sums_K[3]) for at, measure in enumerate(MEASURES)}
