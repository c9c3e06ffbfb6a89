"""The decoder's program restricted to a shortlist: vocabulary-sized weights keep only its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lamina.engine import machine
from lamina.engine.int8 import GROUP
from lamina.engine.operations import HIDDEN
from lamina.engine.products import PANEL, pack, padded
from lamina.engine.vectors import LANES
from lamina.engine.workspace import allocate

if TYPE_CHECKING:
    from lamina.engine.engine import Engine
    from lamina.engine.program import Weight

Int64 = NDArray[np.int64]
Floats = NDArray[np.float32]
BYTES_FIELD = 4  # field with the bytes of a row of scores


class Restriction(NamedTuple):
    """Decoder code whose outputs are indices into a shortlist."""

    code: Int64
    weights: list[Floats]  # referenced by the code
    score_bytes: int


def restrict(engine: Engine, words: Int64) -> Restriction:
    """Restrict the decoder's code to these entries of the vocabulary, renumbered 0, 1, 2 …"""
    program, code = engine.lowered.program, engine.codes["decoder"].copy()
    kept: list[Floats] = []
    known: dict[int, list[int]] = {}

    def place(*arrays: NDArray[np.generic]) -> list[int]:
        addresses = []
        for array in arrays:
            flat = np.ascontiguousarray(array).reshape(-1).view(np.float32)
            buffer = allocate(padded(flat.size, 16))
            buffer[: flat.size] = flat
            kept.append(buffer)
            addresses.append(buffer.ctypes.data)
        return addresses

    width = padded(len(words), PANEL)
    shift = np.full(width, HIDDEN, np.float32)
    shift[: len(words)] = 0.0
    (hidden,) = place(shift)
    packed = PackedRows(engine.weights, words)
    for number, rows in program.vocabulary:
        it, key = code[number], int(code[number, 3])
        if it[0] == machine.EMBED:
            if key not in known:
                known[key] = place(packed.table(key, int(it[4]) // 4))
            (it[3],) = known[key]
            continue
        depth, panels = int(it[5]), int(it[6])
        if key not in known:
            if program.int8:
                known[key] = place(*packed.int8_product(key, int(it[9]), int(it[10]), depth, panels))
            else:
                known[key] = place(packed.product(key, depth, panels, rows))
        it[3], it[4], it[6] = known[key][0], hidden, width // PANEL
        if program.int8:
            it[9], it[10] = known[key][1:]
    for it in code:
        reads = it[2] if it[0] == machine.LOG_SUM_EXP else it[1]
        if it[0] in (machine.LOG_SUM_EXP, machine.BLEND, machine.LOG_ADD) and int(reads) in program.score_registers:
            it[BYTES_FIELD] = 4 * width
    return Restriction(code, kept, 4 * width)


class PackedRows:
    """Extracts the rows of a shortlist from packed matrices."""

    def __init__(self, weights: Floats, words: Int64) -> None:
        self.weights, self.words = weights, words
        self.panel, self.column = np.divmod(words, PANEL)

    def at(self, address: int, count: int) -> Floats:
        """`count` floats from an address on."""
        first = (address - self.weights.ctypes.data) // 4
        return self.weights[first : first + count]

    def table(self, address: int, width: int) -> Floats:
        """Rows of an embedding table."""
        return self.at(address, (int(self.words[-1]) + 1) * width).reshape(-1, width)[self.words]

    def product(self, address: int, depth: int, panels: int, rows: Weight | None) -> Floats:
        """Rows of a packed matrix, repacked; they are gathered faster from an embedding table."""
        if rows is not None:
            table = self.table(self.weights.ctypes.data + 4 * rows.offset, padded(depth, LANES))
            return pack(table[:, :depth])
        packed = self.at(address, panels * depth * PANEL).reshape(panels, depth, PANEL)
        return pack(packed[self.panel, :, self.column])

    def int8_product(
        self, address: int, scales: int, starts: int, depth: int, panels: int
    ) -> tuple[NDArray[np.int8], Floats, Floats]:
        """Rows of a packed 8-bit matrix, repacked: weights, scales and starts."""
        size, count = padded(len(self.words), PANEL), panels * PANEL
        packed = self.at(address, count * depth // 4).view(np.int8).reshape(panels, depth // GROUP, PANEL, GROUP)
        rows = np.zeros((size, depth // GROUP, GROUP), np.int8)
        rows[: len(self.words)] = packed[self.panel, :, self.column]
        columns = np.zeros((2, size), np.float32)
        for column, start in zip(columns, (scales, starts), strict=True):
            column[: len(self.words)] = self.at(start, count)[self.words]
        repacked = rows.reshape(-1, PANEL, depth // GROUP, GROUP).transpose(0, 2, 1, 3)
        return np.ascontiguousarray(repacked), columns[0], columns[1]
