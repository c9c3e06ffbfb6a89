"""The decoder over a shortlist: the same program with fewer rows of weights where the vocabulary comes in."""

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
BYTES_FIELD = 4  # of instructions that pass over a row of scores


class Restriction(NamedTuple):
    """Code that writes entries of a shortlist instead of the vocabulary."""

    code: Int64
    weights: list[Floats]  # which the code points to
    score_bytes: int


def restrict(engine: Engine, words: Int64) -> Restriction:
    """The decoder's code for these entries of the vocabulary, which then have the numbers 0, 1, 2 …"""
    program, code = engine.lowered.program, engine.codes["decoder"].copy()
    kept: list[Floats] = []
    known: dict[int, list[int]] = {}

    def place(*arrays: NDArray[np.generic]) -> list[int]:
        addresses = []
        for array in arrays:
            flat = np.ascontiguousarray(array).reshape(-1).view(np.float32)
            room = allocate(padded(flat.size, 16))
            room[: flat.size] = flat
            kept.append(room)
            addresses.append(room.ctypes.data)
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
    """Some rows of matrices that were packed."""

    def __init__(self, weights: Floats, words: Int64) -> None:
        self.weights, self.words = weights, words
        self.panel, self.column = np.divmod(words, PANEL)

    def at(self, address: int, count: int) -> Floats:
        """Floats from an address on."""
        first = (address - self.weights.ctypes.data) // 4
        return self.weights[first : first + count]

    def table(self, address: int, width: int) -> Floats:
        """Rows of a table of embeddings."""
        return self.at(address, (int(self.words[-1]) + 1) * width).reshape(-1, width)[self.words]

    def product(self, address: int, depth: int, panels: int, rows: Weight | None) -> Floats:
        """Rows of a packed matrix, packed again; they are gathered faster from a table."""
        if rows is not None:
            table = self.table(self.weights.ctypes.data + 4 * rows.offset, padded(depth, LANES))
            return pack(table[:, :depth])
        whole = self.at(address, panels * depth * PANEL).reshape(panels, depth, PANEL)
        return pack(whole[self.panel, :, self.column])

    def int8_product(
        self, address: int, scales: int, starts: int, depth: int, panels: int
    ) -> tuple[NDArray[np.int8], Floats, Floats]:
        """The same in 8 bits: weights, scales and starts of some columns."""
        room, count = padded(len(self.words), PANEL), panels * PANEL
        whole = self.at(address, count * depth // 4).view(np.int8).reshape(panels, depth // GROUP, PANEL, GROUP)
        chosen = np.zeros((room, depth // GROUP, GROUP), np.int8)
        chosen[: len(self.words)] = whole[self.panel, :, self.column]
        numbers = np.zeros((2, room), np.float32)
        for own, place in zip(numbers, (scales, starts), strict=True):
            own[: len(self.words)] = self.at(place, count)[self.words]
        again = chosen.reshape(-1, PANEL, depth // GROUP, GROUP).transpose(0, 2, 1, 3)
        return np.ascontiguousarray(again), numbers[0], numbers[1]
