"""Room for one search at a time: the registers of a program, and the lists that say what each row reads."""

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
LARGE = 4 << 20  # bytes from which large pages pay


def allocate(floats: int) -> Floats:
    """Zeros at the beginning of a cache line; where there are many, the system is asked for large pages."""
    size = max(64, 4 * floats)
    if size >= LARGE and hasattr(mmap, "MADV_HUGEPAGE"):
        memory = mmap.mmap(-1, size)
        memory.madvise(mmap.MADV_HUGEPAGE)
        return np.frombuffer(memory, np.float32)[:floats]
    raw = np.zeros(size + 64, np.uint8)
    first = -raw.ctypes.data % 64
    return raw[first : first + 4 * floats].view(np.float32)


def join_weights(program: Program) -> Floats:
    """All pieces of a new program in one buffer; the pieces are given up."""
    weights = allocate(program.size)
    np.concatenate(program.pieces, out=weights)
    program.pieces.clear()
    return weights


class Workspace:
    """Grows to the largest batch it has seen."""

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
        self._weights = weights  # which fixed registers point to
        for register, weight in program.fixed.items():
            self.registers[register] = weights.ctypes.data + 4 * weight.offset, 0

    def fit(self, rows: int, source_tokens: int, written: int, keys: int, positions: int, numbers: int) -> None:
        """Make room: rows of each kind, keys that one row attends to, positions, and entries of `numbers`."""
        for kind, wanted in ((ROW, rows), (SOURCE_TOKEN, source_tokens), (WRITTEN, written)):
            if wanted > self.capacity[kind]:
                self._grow(kind, wanted)
        if rows > self.table.shape[1]:
            self.table = np.zeros((9, self.capacity[ROW]), np.int64)
        if keys + 4 > self.scores.shape[1]:
            room = padded(keys + 4, 64)
            self.scores = allocate(self.heads * room).reshape(self.heads, room)
        if numbers > len(self.numbers):
            grown = np.zeros(numbers + numbers // 4, np.int32)
            grown[: len(self.numbers)] = self.numbers
            self.numbers = grown
        self._fit_positions(positions)

    def rows(self, records: NDArray[np.int64] | None = None, record_bytes: int = 0) -> Rows:
        """What the machine is told."""
        kept = self.records if records is None else records
        return Rows(self.table, self.numbers, self.scores, kept, record_bytes)

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
        """A larger buffer for all registers of a kind; what they hold is kept."""
        capacity, before = wanted + wanted // 4, self.capacity[kind]
        members = [number for number, own in enumerate(self.program.kinds) if own == kind]
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
                place = vectors.frequencies.offset
                frequencies = self._weights[place : place + vectors.size]
                table = position_table(vectors.first, frequencies, max(256, 2 * wanted))
                rows = allocate(len(table) * width).reshape(len(table), width)
                rows[:, : table.shape[1]] = table
                self.tables[register] = rows
                self.registers[register, 0] = rows.ctypes.data


def position_table(first: int, frequencies: Floats, count: int) -> Floats:
    """The vectors of positions, sines before cosines: angles in 32 bits, as in torch, and both rounded once."""
    angles = np.arange(first, first + count, dtype=np.float32)[:, None] * frequencies
    wide = angles.astype(np.float64)
    table: Floats = np.concatenate([np.sin(wide), np.cos(wide)], axis=1).astype(np.float32)
    return table
