"""BLEU (Papineni et al. 2002), chrF (Popović 2015) and TER (Snover et al. 2006) as sacreBLEU computes them (Post 2018).

Tokenisation, smoothing and signatures are sacreBLEU's, so scores compare with any published sacreBLEU score that has
the same signature. Texts must be detokenised.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sacrebleu.metrics.base import Metric as SacreMetric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from lamina.scoring.protocol import Array, Gold
from lamina.scoring.tokenizers import choose_tokenizer, language_tokenizer


def corpus_bleu(outputs: Sequence[str], references: Sequence[str], language: str | None = None) -> float:
    """BLEU with a single reference, tokenised or not, for comparisons within one corpus."""
    return float(BLEU(force=True, tokenize=language_tokenizer(language)).corpus_score(outputs, [references]).score)


class Sacre:
    """A sacreBLEU metric, whose segment statistics are additive."""

    higher_is_better = True

    def __init__(self, name: str, metric: SacreMetric, gold: Gold) -> None:
        self.name = name
        self.sentences = len(gold.references[0])
        self._metric = metric

    @property
    def signature(self) -> str:
        """sacreBLEU's signature."""
        return str(self._metric.get_signature().format())

    def statistics(self, hypotheses: Sequence[str]) -> Array:
        """sacreBLEU's segment statistics."""
        return np.array(self._metric._extract_corpus_statistics(hypotheses, None), dtype=np.float64)

    def scores(self, sums_SK: Array) -> Array:
        """sacreBLEU's corpus score of each row."""
        return np.array([self._metric._compute_score_from_stats(row).score for row in sums_SK.tolist()])


class Bleu(Sacre):
    """BLEU; statistics are the two lengths, four matches and four totals."""

    def __init__(self, gold: Gold) -> None:
        tokenize = choose_tokenizer(gold.tokenize, gold.language, gold.references)
        metric = BLEU(lowercase=gold.lowercase, force=True, tokenize=tokenize, references=gold.references)
        super().__init__("bleu", metric, gold)

    def details(self, sums_K: Array) -> dict[str, float]:
        """N-gram precisions, brevity penalty and lengths."""
        found = self._metric._compute_score_from_stats(sums_K.tolist())
        precisions = {f"precision_{n}": value for n, value in enumerate(found.precisions, start=1)}
        return {**precisions, "bp": found.bp, "hyp_length": found.sys_len, "ref_length": found.ref_len}


class Chrf(Sacre):
    """chrF2; statistics are hypothesis, reference and matching n-grams of one to six characters."""

    def __init__(self, gold: Gold) -> None:
        super().__init__("chrf", CHRF(lowercase=gold.lowercase, references=gold.references), gold)

    def details(self, sums_K: Array) -> dict[str, float]:
        """Precision and recall, averaged over n-gram orders that occur."""
        orders = [row for row in sums_K.reshape(-1, 3).tolist() if row[0] > 0 and row[1] > 0]
        found = [(100 * match / hyp, 100 * match / ref) for hyp, ref, match in orders] or [(0.0, 0.0)]
        precision, recall = (sum(values) / len(found) for values in zip(*found, strict=True))
        return {"precision": precision, "recall": recall}


class Ter(Sacre):
    """TER (lower is better); statistics are edits and reference words. sacreBLEU's TER always ignores case."""

    higher_is_better = False

    def __init__(self, gold: Gold) -> None:
        super().__init__("ter", TER(references=gold.references), gold)

    def details(self, sums_K: Array) -> dict[str, float]:
        """Number of edits and reference length."""
        return {"edits": float(sums_K[0]), "ref_length": float(sums_K[1])}
