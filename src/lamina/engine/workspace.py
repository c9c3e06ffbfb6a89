"""The workspace of one search: the registers of a program, and the lists of what each row reads."""

from __future__ import annotations

import mmap
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from lamina.engine.machine import ATTEND, Rows
from lamina.engine.products import padded
from lamina.engine.program import Program
from lamina.engine.search import FIXED, ROW, SOURCE_TOKEN, WRITTEN

Floats = NDArray[np.float32]
LARGE = 4 << 20  # bytes from which huge pages pay off


def allocate(floats: int) -> Floats:
    """Allocate zeros aligned to a cache line, in huge pages if there are many."""
    size = max(64, 4 * floats)
    if size >= LARGE and hasattr(mmap, "MADV_HUGEPAGE"):
        memory = mmap.mmap(-1, size)
        memory.madvise(mmap.MADV_HUGEPAGE)
        return np.frombuffer(memory, np.float32)[:floats]
    raw = np.zeros(size + 64, np.uint8)
    first = -raw.ctypes.data % 64
    return raw[first : first + 4 * floats].view(np.float32)


def join_weights(program: Program) -> Floats:
    """Concatenate the weights of a new program into one buffer, and release the pieces."""
    weights = allocate(program.size)
    np.concatenate(program.pieces, out=weights)
    program.pieces.clear()
    return weights


class Workspace:
    """The mutable state of one search, which grows to the largest batch so far."""

    def __init__(self, program: Program, weights: Floats, codes: Mapping[str, NDArray[np.int64]]) -> None:
        self.program = program
        self.kinds = np.array(program.kinds, np.int64)
        self.registers = np.zeros((len(self.kinds), 2), np.int64)
        self.registers[:, 1] = 4 * np.array(program.widths, np.int64)
        self.buffers: dict[int, Floats] = {}
        self.capacity = dict.fromkeys((ROW, SOURCE_TOKEN, WRITTEN), 0)
        self.tables: dict[int, Floats] = {}
        self.heads = max([int(each[7]) for code in codes.values() for each in code if each[0] == ATTEND], default=1)
        self.records = np.zeros(max(map(len, codes.values())), np.int64)
        self.table = np.zeros((9, 0), np.int64)
        self.numbers = np.zeros(0, np.int32)
        self.scores = np.zeros((self.heads, 0), np.float32)
        self._weights = weights  # referenced by fixed registers
        for register, weight in program.fixed.items():
            self.registers[register] = weights.ctypes.data + 4 * weight.offset, 0

    def fit(self, rows: int, source_tokens: int, written: int, keys: int, positions: int, numbers: int) -> None:
        """Grow to hold these rows of each kind, keys that one row attends to, positions, and entries of `numbers`."""
        for kind, wanted in ((ROW, rows), (SOURCE_TOKEN, source_tokens), (WRITTEN, written)):
            if wanted > self.capacity[kind]:
                self._grow(kind, wanted)
        if rows > self.table.shape[1]:
            self.table = np.zeros((9, self.capacity[ROW]), np.int64)
        if keys + 4 > self.scores.shape[1]:
            capacity = padded(keys + 4, 64)
            self.scores = allocate(self.heads * capacity).reshape(self.heads, capacity)
        if numbers > len(self.numbers):
            grown = np.zeros(numbers + numbers // 4, np.int32)
            grown[: len(self.numbers)] = self.numbers
            self.numbers = grown
        self._fit_positions(positions)

    def rows(self, records: NDArray[np.int64] | None = None, record_bytes: int = 0) -> Rows:
        """The inputs of an execution."""
        addresses = self.records if records is None else records
        return Rows(self.table, self.numbers, self.scores, addresses, record_bytes)

    def view(self, register: int, rows: int) -> Floats:
        """The first rows of a register."""
        width = int(self.registers[register, 1]) // 4
        if self.program.kinds[register] == FIXED:
            offset = self.program.fixed[register].offset
            row = self._weights[offset : offset + self.program.widths[register]]
            return np.broadcast_to(row, (rows, len(row)))
        kind = self.program.kinds[register]
        first = (int(self.registers[register, 0]) - self.buffers[kind].ctypes.data) // 4
        return self.buffers[kind][first : first + rows * width].reshape(rows, width)

    def _grow(self, kind: int, wanted: int) -> None:
        """Enlarge the buffer of all registers of a kind, keeping their content."""
        capacity, before = wanted + wanted // 4, self.capacity[kind]
        members = [number for number, each in enumerate(self.program.kinds) if each == kind]
        widths = [self.program.widths[number] for number in members]
        buffer = allocate(capacity * sum(widths))
        first = 0
        for number, width in zip(members, widths, strict=True):
            if before:
                buffer[first : first + before * width] = self.view(number, before).reshape(-1)
            first += capacity * width
        first = buffer.ctypes.data
        for number, width in zip(members, widths, strict=True):
            self.registers[number, 0] = first
            first += 4 * capacity * width
        self.buffers[kind], self.capacity[kind] = buffer, capacity

    def _fit_positions(self, wanted: int) -> None:
        for register, vectors in self.program.positions.items():
            width = self.program.widths[register]
            if register not in self.tables or len(self.tables[register]) < wanted:
                offset = vectors.frequencies.offset
                frequencies = self._weights[offset : offset + vectors.size]
                table = position_table(vectors.first, frequencies, max(256, 2 * wanted))
                rows = allocate(len(table) * width).reshape(len(table), width)
                rows[:, : table.shape[1]] = table
                self.tables[register] = rows
                self.registers[register, 0] = rows.ctypes.data


def position_table(first: int, frequencies: Floats, count: int) -> Floats:
    """Position vectors, sines before cosines: angles in 32 bits, as in torch, and sine and cosine rounded once."""
    angles = np.arange(first, first + count, dtype=np.float32)[:, None] * frequencies
    wide = angles.astype(np.float64)
    table: Floats = np.concatenate([np.sin(wide), np.cos(wide)], axis=1).astype(np.float32)
    return table
