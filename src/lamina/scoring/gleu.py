"""GLEU for grammatical error correction (Napoles et al. 2015; the 2016 version without tuning).

    GLEU = BP · exp(¼ Σ_n log p_n),   n = 1..4
    p_n  = Σ max(0, |H ∩ R| − |H ∩ (S \\ R)|) / Σ |H|

over the n-grams of hypothesis H, reference R and source S, where S \\ R are the source n-grams absent from the
reference: keeping what should have been changed costs as much as a correct n-gram earns. BP is BLEU's brevity penalty.
There is no smoothing: a p_n of 0 makes the score 0.

With several references the score is the mean over 500 draws of one reference per sentence. The draws are those of the
published tool (draw d is seeded with 101·d), so scores are reproducible and equal to its scores.
Texts are split at white space and must be tokenised like the references.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random

import numpy as np
from numpy.typing import NDArray

from lamina.errors import UsageError
from lamina.names import option
from lamina.scoring.multi_bleu import ORDER, brevity_penalty, geometric_mean
from lamina.scoring.protocol import Array, Gold

DRAWS = 500
SEED_STEP = 101
Ngrams = Counter[tuple[str, ...]]


class Gleu:
    """Statistics are hypothesis length and four totals, then per draw reference length and four matches."""

    name = "gleu"
    higher_is_better = True

    def __init__(self, gold: Gold) -> None:
        if gold.source is None:
            raise UsageError(f"GLEU also needs the uncorrected text: give it with {option('source')}.")
        self.sentences = len(gold.references[0])
        self._lowercase = gold.lowercase
        self._sources = [self._count(line) for line in gold.source]
        self._references = [[self._count(line) for line in lines] for lines in zip(*gold.references, strict=True)]
        self._drawn_ND = draw_references(self.sentences, len(gold.references))

    @property
    def signature(self) -> str:
        """Includes the number of draws."""
        draws = self._drawn_ND.shape[1]
        drawn = f"|draws:{draws}" if draws > 1 else ""
        refs, case = len(self._references[0]), "lc" if self._lowercase else "mixed"
        return f"GLEU 2016|nrefs:{refs}|case:{case}|tok:none|smooth:none{drawn}"

    def statistics(self, hypotheses: Sequence[str]) -> Array:
        """One row per sentence."""
        own_rows, reference_rows = [], []
        for line, source, references in zip(hypotheses, self._sources, self._references, strict=True):
            found = self._count(line)
            own_rows.append([found[0].total(), *(each.total() for each in found)])
            reference_rows.append(
                [[reference[0].total(), *count_matches(found, source, reference)] for reference in references]
            )
        own_NK, by_reference_NRK = np.array(own_rows, np.float64), np.array(reference_rows, np.float64)
        drawn_NDK = by_reference_NRK[np.arange(self.sentences)[:, None], self._drawn_ND]
        return np.concatenate([own_NK, drawn_NDK.reshape(self.sentences, -1)], axis=1)

    def scores(self, sums_SK: Array) -> Array:
        """The mean over draws × 100."""
        sets = len(sums_SK)
        drawn_SDK = sums_SK[:, 1 + ORDER :].reshape(sets, -1, 1 + ORDER)
        totals_SDN = np.broadcast_to(sums_SK[:, None, 1 : 1 + ORDER], drawn_SDK[..., 1:].shape)
        precisions_SDN = np.divide(drawn_SDK[..., 1:], totals_SDN, out=np.zeros(totals_SDN.shape), where=totals_SDN > 0)
        lengths_SD = np.broadcast_to(sums_SK[:, :1], drawn_SDK.shape[:2])
        gleu_SD = brevity_penalty(lengths_SD, drawn_SDK[..., 0]) * geometric_mean(precisions_SDN)
        return np.asarray(100 * gleu_SD.mean(axis=1))

    def details(self, sums_K: Array) -> dict[str, float]:
        """Precisions and lengths, averaged over draws."""
        length_and_matches_K = sums_K[1 + ORDER :].reshape(-1, 1 + ORDER).mean(axis=0)
        found = {
            f"precision_{n}": 100 * float(length_and_matches_K[n] / sums_K[n]) if sums_K[n] else 0.0
            for n in range(1, ORDER + 1)
        }
        return {**found, "hyp_length": float(sums_K[0]), "ref_length": float(length_and_matches_K[0])}

    def _count(self, line: str) -> list[Ngrams]:
        words = (line.lower() if self._lowercase else line).split()
        return [Counter(zip(*(words[start:] for start in range(n)), strict=False)) for n in range(1, ORDER + 1)]


def draw_references(sentences: int, references: int) -> NDArray[np.int64]:
    """(N, D): the reference drawn for each sentence in each draw; a single draw if there is one reference."""
    draws = []
    for draw in range(DRAWS if references > 1 else 1):
        generator = Random(draw * SEED_STEP)
        draws.append([int(generator.random() * references) for _ in range(sentences)])
    return np.array(draws, dtype=np.int64).T


def count_matches(found: list[Ngrams], source: list[Ngrams], reference: list[Ngrams]) -> list[int]:
    """For each n, count n-grams shared with the reference minus those shared with the source only."""
    matches = []
    for hypothesis_n, source_n, reference_n in zip(found, source, reference, strict=True):
        only_source_n = Counter({ngram: count for ngram, count in source_n.items() if ngram not in reference_n})
        matches.append(max(0, (hypothesis_n & reference_n).total() - (hypothesis_n & only_source_n).total()))
    return matches
