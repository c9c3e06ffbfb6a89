"""Batches by padded token count: a global order determined by (seed, epoch), split into updates, then micro-batches.

    global order ──► updates of batch_tokens × accumulate × ranks ──► micro-batches, `accumulate` per rank

The split depends on the product alone, so 4096×1×1, 2048×2×1 and 2048×1×2 see the same pairs in every update.
A micro-batch stays within batch_tokens if the update divides evenly (by 2, 4 and 8 it does), else it has at most one
sentence more. A sentence longer than the budget forms its own batch. A micro-batch with much longer sources than
targets is computed in several pieces, which affects memory only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lamina.corpus.edits import changed_tokens
from lamina.corpus.prepared import Split
from lamina.corpus.word_dropout import WordDropout
from lamina.text.vocabulary import BOS, PAD

Indices = NDArray[np.int64]

SOURCE_ROOM = 9 / 8  # maximum padded source tokens of a micro-batch, relative to batch_tokens


@dataclass(frozen=True)
class Batch:
    """A micro-batch: padded sources, prefixes and targets (B, S), (B, T), (B, T)."""

    source: NDArray[np.int64]
    prefix: NDArray[np.int64]
    target: NDArray[np.int64]
    pairs: Indices  # indices of these pairs in the split
    importance: NDArray[np.float32] | None = None  # (B, T): weight of each target token; None: 1

    @property
    def tokens(self) -> int:
        """Number of target tokens without padding."""
        return int((self.target != PAD).sum())


@dataclass(frozen=True)
class Update:
    """The micro-batches of one optimizer step on one rank, and the target tokens of all ranks."""

    batches: list[Batch]  # at least `accumulate`; with very few sentences some are empty
    tokens: int
    weight: float  # total importance of these tokens


@dataclass(frozen=True)
class Position:
    """A position in the data: the epoch, and the number of its updates that are done."""

    epoch: int = 0
    update: int = 0


class Batches:
    """Updates of a split for one rank, epoch after epoch."""

    def __init__(
        self,
        split: Split,
        batch_tokens: int,
        *,
        accumulate: int = 1,
        ranks: int = 1,
        rank: int = 0,
        seed: int = 1,
        start_id: int = BOS,
        edit_weight: float = 1.0,
        word_dropout: WordDropout | None = None,
        multiple: int = 1,
    ) -> None:
        self.split = split
        self.batch_tokens = batch_tokens
        self.capacity = batch_tokens * accumulate * ranks
        self.accumulate, self.ranks, self.rank = accumulate, ranks, rank
        self.seed, self.start_id = seed, start_id
        self.edit_weight, self.word_dropout = edit_weight, word_dropout
        self.multiple = multiple  # pad lengths to a multiple of this; GPU kernels prefer 8

    @cached_property
    def source_lengths(self) -> NDArray[np.int32]:
        """Source length of every pair, eos included."""
        return self.split.lengths("source")

    @cached_property
    def target_lengths(self) -> NDArray[np.int32]:
        """Target length of every pair, eos included."""
        return self.split.lengths("target")

    def updates(self, epoch: int) -> list[Indices]:
        """The pairs of each update of an epoch, the same on every rank."""
        random = np.random.default_rng([self.seed, epoch])
        order = random.permutation(len(self.split))
        source, target = self.source_lengths[order], self.target_lengths[order]
        # by target length, then by source length, alternately ascending and descending: neighbours stay similar
        order = order[np.lexsort((np.where(target % 2 == 0, source, -source), target))]
        updates = self._split_updates(order)
        return [updates[index] for index in random.permutation(len(updates))]

    def iterate(self, position: Position) -> Iterator[tuple[Update, Position]]:
        """Endless updates from a position on, each with the position after it."""
        if len(self.split) == 0:
            return
        while True:
            updates = self.updates(position.epoch)
            for number in range(position.update, len(updates)):
                last = number + 1 == len(updates)
                after = Position(position.epoch + 1, 0) if last else Position(position.epoch, number + 1)
                yield self.load(updates[number], position.epoch), after
            position = Position(position.epoch + 1, 0)

    def load(self, pairs: Indices, epoch: int = 0) -> Update:
        """Load this rank's part of an update: every `ranks`-th micro-batch."""
        parts = np.array_split(pairs, self.accumulate * self.ranks)[self.rank :: self.ranks]
        pieces = [piece for part in parts for piece in self._by_source(part)]
        batches, tokens = [self._pad(piece, epoch) for piece in pieces], int(self.target_lengths[pairs].sum())
        weight = float(tokens) if self.edit_weight == 1 else sum(float(self._importance(int(n)).sum()) for n in pairs)
        return Update(batches, tokens, weight)

    def oversized(self) -> Indices:
        """Pairs longer than the budget; each forms its own batch."""
        limit = self.batch_tokens
        return np.flatnonzero((self.target_lengths > limit) | (self.source_lengths > 2 * limit))

    def padding(self, epoch: int = 0) -> float:
        """The fraction of padding in all source and target batches of an epoch."""
        cells = real = 0
        for pairs in self.updates(epoch):
            parts = np.array_split(pairs, self.accumulate * self.ranks)
            for part in (piece for each in parts for piece in self._by_source(each)):
                for lengths in (self.source_lengths[part], self.target_lengths[part]):
                    cells += len(part) * int(lengths.max(initial=0))
                    real += int(lengths.sum())
        return 1 - real / cells if cells else 0.0

    def _split_updates(self, order: Indices) -> list[Indices]:
        """Split sorted pairs into updates within the budget: sentences × longest target, and twice that for sources."""
        source, target = self.source_lengths[order], self.target_lengths[order]
        updates, start = [], 0
        while start < len(order):
            size = self._fit(source, target, start)
            updates.append(order[start : start + size])
            start += size
        return updates

    def _fit(self, source: NDArray[np.int32], target: NDArray[np.int32], start: int) -> int:
        """Number of sentences from `start` on that fit into one update, at least one."""
        size = min(self.capacity // int(target[start]), len(target) - start)
        while size > 1:
            longest = max(int(target[start + size - 1]), -(-int(source[start : start + size].max()) // 2))
            fitting = self.capacity // longest
            if fitting >= size:
                break
            size = fitting
        size = max(1, size)
        return size if start + size == len(target) else divisible(size)

    def _by_source(self, part: Indices) -> list[Indices]:
        """Split a micro-batch into equal pieces whose padded sources fit."""
        cells = len(part) * int(self.source_lengths[part].max(initial=0))
        pieces = min(-(-cells // int(SOURCE_ROOM * self.batch_tokens)), len(part))
        return np.array_split(part, max(1, pieces))

    def _importance(self, pair: int) -> NDArray[np.float32]:
        """Weights of a pair's target tokens: `edit_weight` for those that differ from the source, else 1."""
        source, target = self.split[pair]
        return np.where(changed_tokens(source.tolist(), target.tolist()), self.edit_weight, 1.0).astype(np.float32)

    def _pad(self, pairs: Indices, epoch: int) -> Batch:
        sources, targets = [], []
        for index in pairs:
            source, target = self.split[int(index)]
            sources.append(source if self.word_dropout is None else self.word_dropout(source, epoch, int(index)))
            targets.append(target)
        prefixes = [np.concatenate([[self.start_id], target[:-1]]) for target in targets]
        source_BS, prefix_BT, target_BT = (pad_arrays(rows, self.multiple) for rows in (sources, prefixes, targets))
        importance_BT = None
        if self.edit_weight != 1:
            importance_BT = np.zeros(target_BT.shape, dtype=np.float32)
            for row, index in zip(importance_BT, pairs, strict=True):
                weights = self._importance(int(index))
                row[: len(weights)] = weights
        return Batch(source_BS, prefix_BT, target_BT, pairs, importance_BT)


def pad_arrays(rows: Sequence[NDArray[Any]], multiple: int = 1) -> NDArray[np.int64]:
    """Rows of ids as a rectangular array, padded on the right to a multiple of a length."""
    longest = max(map(len, rows), default=0)
    padded = np.full((len(rows), -(-longest // multiple) * multiple), PAD, dtype=np.int64)
    for number, row in enumerate(rows):
        padded[number, : len(row)] = row
    return padded


def divisible(sentences: int) -> int:
    """Round down to a multiple of 8, or to a power of 2 below 8."""
    return sentences - sentences % 8 if sentences >= 8 else 1 << (sentences.bit_length() - 1)
