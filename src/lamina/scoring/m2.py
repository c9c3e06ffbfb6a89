"""MaxMatch, the M² scorer (Dahlmeier & Ng 2012): F0.5 of edits against the edits of human annotators.

    P = correct / proposed,   R = correct / gold,   F0.5 = 1.25 · P · R / (0.25 · P + R)

over the whole corpus. The edits of a hypothesis are extracted to agree best with an annotator (`edit_lattice`). If a
sentence has several annotators, the one that maximises F0.5 of the corpus up to and including this sentence is chosen,
as in the published scorer. Resampled sets keep that choice.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lamina.corpus.m2_format import parse_m2
from lamina.errors import UsageError
from lamina.scoring.edit_lattice import MAX_UNCHANGED, build_lattice, count_edits
from lamina.scoring.protocol import Array, Gold

BETA = 0.5


class MaxMatch:
    """Statistics are correct, proposed and gold edits, against the annotator chosen for the sentence."""

    name = "m2"
    higher_is_better = True

    def __init__(self, gold: Gold) -> None:
        require_one_file(gold.references)
        if gold.lowercase:
            raise UsageError("m2 cannot ignore case: it also scores corrections of case.")
        self._sentences = parse_m2(gold.references[0], *gold.names[:1])
        self.sentences = len(self._sentences)

    @property
    def signature(self) -> str:
        """Includes the number of annotators."""
        annotators = max((len(sentence.annotators) for sentence in self._sentences), default=0)
        return f"MaxMatch F{BETA}|annotators:{annotators}|max_unchanged_words:{MAX_UNCHANGED}|tok:none"

    def statistics(self, hypotheses: Sequence[str]) -> Array:
        """One row per sentence; the choice of annotators depends on the order of sentences."""
        rows_NK = np.zeros((self.sentences, 3))
        correct = proposed = total = 0
        for row_K, line, sentence in zip(rows_NK, hypotheses, self._sentences, strict=True):
            words = tuple(line.split())
            lattice = build_lattice(sentence.words, words)
            choices = []
            for edits in sentence.annotators.values():
                matched, made = count_edits(sentence.words, words, lattice, edits)
                running = correct + matched, proposed + made, total + len(edits)
                rank = f_beta(*running), running[0], -(running[1] + BETA**2 * running[2])
                choices.append((rank, (matched, made, len(edits))))
            row_K[:] = max(choices, key=lambda choice: choice[0])[1]
            correct, proposed, total = correct + int(row_K[0]), proposed + int(row_K[1]), total + int(row_K[2])
        return rows_NK

    def scores(self, sums_SK: Array) -> Array:
        """F0.5 × 100."""
        return np.array([100 * f_beta(*row) for row in sums_SK.tolist()])

    def details(self, sums_K: Array) -> dict[str, float]:
        """Precision (100 if nothing is proposed), recall (100 if there are no gold edits) and counts."""
        correct, proposed, total = sums_K.tolist()
        precision, recall = correct / proposed if proposed else 1.0, correct / total if total else 1.0
        counts = {"correct": correct, "proposed": proposed, "gold": total}
        return {"precision": 100 * precision, "recall": 100 * recall, **counts}


def require_one_file(references: Sequence[object]) -> None:
    """Raise unless there is one reference: an .m2 file contains all annotators."""
    if len(references) != 1:
        raise UsageError("m2 takes one reference, an .m2 file with the edits of all annotators.")


def f_beta(correct: float, proposed: float, total: float) -> float:
    """F0.5 from counts; 1 if there are neither gold nor proposed edits."""
    weighted = BETA**2 * total + proposed
    return (1 + BETA**2) * correct / weighted if weighted else 1.0
