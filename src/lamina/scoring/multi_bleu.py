"""Tokenised BLEU as Moses' multi-bleu.perl computes it (Papineni et al. 2002; Koehn et al. 2007).

    BLEU = BP · exp(¼ Σ_n log p_n),   BP = min(1, exp(1 − r / c)),   n = 1..4

over space-separated words: no tokenisation, no smoothing (a p_n of 0 makes the score 0), n-gram counts clipped to the
maximum over references, and r the closest reference length, the shorter one in a tie. Like the script, it works on
bytes: only ASCII white space separates words and only A–Z are lower-cased.
Scores are comparable only over the same tokenisation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from lamina.scoring.protocol import Array, Gold

ORDER = 4
Ngrams = Counter[tuple[bytes, ...]]


class MultiBleu:
    """Statistics are hypothesis length, reference length, four matches and four totals."""

    name = "multi-bleu"
    higher_is_better = True

    def __init__(self, gold: Gold) -> None:
        self.sentences = len(gold.references[0])
        self._lowercase = gold.lowercase
        self._references = [[self._words(line) for line in lines] for lines in zip(*gold.references, strict=True)]
        self._count = len(gold.references)

    @property
    def signature(self) -> str:
        """Marks the score as not comparable with sacreBLEU."""
        case = "lc" if self._lowercase else "mixed"
        return f"tokenised BLEU, not comparable with sacreBLEU|nrefs:{self._count}|case:{case}|tok:none|smooth:none"

    def statistics(self, hypotheses: Sequence[str]) -> Array:
        """One row per sentence."""
        rows = [
            count_matches(self._words(line), references)
            for line, references in zip(hypotheses, self._references, strict=True)
        ]
        return np.array(rows, dtype=np.float64)

    def scores(self, sums_SK: Array) -> Array:
        """BLEU × 100."""
        precisions_SN, penalty_S = precisions(sums_SK), brevity_penalty(sums_SK[:, 0], sums_SK[:, 1])
        return 100 * penalty_S * geometric_mean(precisions_SN)

    def details(self, sums_K: Array) -> dict[str, float]:
        """N-gram precisions, brevity penalty and lengths."""
        found = {f"precision_{n}": 100 * float(value) for n, value in enumerate(precisions(sums_K[None])[0], start=1)}
        penalty = float(brevity_penalty(sums_K[None, 0], sums_K[None, 1])[0])
        return {**found, "bp": penalty, "hyp_length": float(sums_K[0]), "ref_length": float(sums_K[1])}

    def _words(self, line: str) -> list[bytes]:
        content = line.encode("utf-8")
        return (content.lower() if self._lowercase else content).split()


def count_matches(words: list[bytes], references: list[list[bytes]]) -> list[int]:
    """Statistics of one sentence: lengths, clipped matches, totals."""
    closest = min((len(reference) for reference in references), key=lambda length: (abs(length - len(words)), length))
    matches, totals = [], []
    for n in range(1, ORDER + 1):
        allowed: Ngrams = Counter()
        for reference in references:
            allowed |= ngrams(reference, n)
        found = ngrams(words, n)
        matches.append((found & allowed).total())
        totals.append(found.total())
    return [len(words), closest, *matches, *totals]


def ngrams(words: list[bytes], n: int) -> Ngrams:
    """Count n-grams."""
    return Counter(zip(*(words[start:] for start in range(n)), strict=False))


def precisions(sums_SK: Array) -> Array:
    """Matches over totals; 0 where the total is 0."""
    matches_SN, totals_SN = sums_SK[:, 2 : 2 + ORDER], sums_SK[:, 2 + ORDER :]
    return np.divide(matches_SN, totals_SN, out=np.zeros_like(matches_SN), where=totals_SN > 0)


def brevity_penalty(hypothesis_S: Array, reference_S: Array) -> Array:
    """min(1, exp(1 − r / c)); 0 for an empty output or an empty reference."""
    ratio_S = np.divide(reference_S, hypothesis_S, out=np.full_like(reference_S, np.inf), where=hypothesis_S > 0)
    return np.where(reference_S > 0, np.exp(np.minimum(0.0, 1.0 - ratio_S)), 0.0)


def geometric_mean(values_SN: Array) -> Array:
    """Geometric mean over the last dimension; 0 if any value is 0."""
    logs_SN = np.log(values_SN, out=np.full_like(values_SN, -np.inf), where=values_SN > 0)
    return np.asarray(np.exp(logs_SN.mean(axis=-1)))
