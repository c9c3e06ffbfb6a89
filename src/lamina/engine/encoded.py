"""Encoded sources whose target rows are decoded by explicit calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lamina.engine.machine import BOTH, COUNT, OWN, PLACE, POSITION, SOURCE, START, TOKEN
from lamina.engine.search import FIRST, LENGTH, Sources

if TYPE_CHECKING:
    from lamina.engine.engine import Engine

Floats = NDArray[np.float32]
Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]


class EncodedSources:
    """A batch of encoded sources with its own workspace."""

    def __init__(self, engine: Engine, batch: Sources) -> None:
        self.engine, self.batch = engine, batch
        self.space = engine.new_workspace()
        self.used = len(batch.tokens)  # cache rows in use: source tokens and written positions

    def reserve(self, count: int) -> Int32:
        """Reserve cache rows for new positions."""
        self.used += count
        return np.arange(self.used - count, self.used, dtype=np.int32)

    def run(
        self,
        tokens: Int64,
        positions: Int64,
        cache_rows: Int32,
        sources: Int64,
        past: Int32,
        records: Sequence[int] = (),
    ) -> list[Floats]:
        """Decode rows, each given by its token, position, cache row to write, source, and the cache rows of its prefix
        including itself (the first `position` + 1 entries). Return the weights recorded by `records`.
        """
        count, width = past.shape
        first, length = self.batch.table[FIRST, sources], self.batch.table[LENGTH, sources]
        counts = positions + 1
        both, begin = self._both_lists(past, first, length, counts)
        lists = len(self.batch.tokens)
        longest = int(length.max(initial=1))
        self.space.fit(count, lists, self.used, longest + width, width, lists + past.size + len(both))
        self.space.numbers[lists : lists + past.size] = past.reshape(-1)
        self.space.numbers[lists + past.size : lists + past.size + len(both)] = both
        table = self.space.table[:, :count]
        table[TOKEN], table[POSITION], table[PLACE] = tokens, positions, cache_rows
        table[START + OWN], table[COUNT + OWN] = lists + width * np.arange(count), counts
        table[START + SOURCE], table[COUNT + SOURCE] = first, length
        table[START + BOTH], table[COUNT + BOTH] = lists + past.size + begin, length + counts
        return self._execute(count, records)

    def distribution(self, count: int) -> tuple[Floats, Floats]:
        """Scores over the vocabulary and their normaliser, for every row."""
        scores, normaliser = (self.space.view(each, count) for each in self.engine.lowered.distribution)
        return scores[:, : self.engine.vocabulary], normaliser[:, :1]

    def _both_lists(self, past: Int32, first: Int64, length: Int64, counts: Int64) -> tuple[Int32, Int64]:
        """Lists of source tokens followed by the prefix, and the start of each."""
        if not self.engine.lowered.reads_both:
            return np.zeros(0, np.int32), np.zeros(len(past), np.int64)
        lists = [
            np.concatenate([np.arange(start, start + size, dtype=np.int32), row[:count]])
            for row, start, size, count in zip(past, first.tolist(), length.tolist(), counts.tolist(), strict=True)
        ]
        begin = np.cumsum([0, *(len(each) for each in lists)])[:-1]
        return np.concatenate([np.zeros(0, np.int32), *lists]), begin

    def _execute(self, count: int, records: Sequence[int]) -> list[Floats]:
        """Run the decoder; return the weights of the instructions `records`, each (rows, heads, keys)."""
        heads, keys = self.space.scores.shape
        recorded = [np.zeros((count, heads, keys), np.float32) for _ in records]
        addresses = np.zeros_like(self.space.records)
        for number, array in zip(records, recorded, strict=True):
            addresses[number] = array.ctypes.data
        rows = self.space.rows(addresses, 4 * heads * keys)
        self.engine.functions.execute(self.engine.codes["decoder"], self.space.registers, count, rows)
        return recorded
