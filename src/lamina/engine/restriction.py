"""The decoder over a shortlist: the same program with other matrices where the vocabulary comes in."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lamina.engine import machine
from lamina.engine.int8 import pack_int8
from lamina.engine.operations import HIDDEN
from lamina.engine.products import PANEL, pack, padded
from lamina.engine.program import numbers
from lamina.engine.vectors import LANES
from lamina.engine.workspace import allocate

if TYPE_CHECKING:
    from lamina.engine.engine import Engine

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
    known: dict[tuple[int, str], list[int]] = {}

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
    for number, weight in program.vocabulary:
        it, key = code[number], weight.data_ptr()
        if it[0] == machine.EMBED:
            if (key, "rows") not in known:
                rows = np.zeros((len(words), padded(weight.shape[1], LANES)), np.float32)
                rows[:, : weight.shape[1]] = numbers(weight)[words]
                known[key, "rows"] = place(rows)
            (it[3],) = known[key, "rows"]
            continue
        if (key, "packed") not in known:
            matrix = numbers(weight)[words]
            known[key, "packed"] = place(*(pack_int8(matrix) if program.int8 else (pack(matrix),)))
        it[3], it[4], it[6] = known[key, "packed"][0], hidden, width // PANEL
        if program.int8:
            it[9], it[10] = known[key, "packed"][1:]
    for it in code:
        reads = it[2] if it[0] == machine.LOG_SUM_EXP else it[1]
        if it[0] in (machine.LOG_SUM_EXP, machine.BLEND, machine.LOG_ADD) and int(reads) in program.score_registers:
            it[BYTES_FIELD] = 4 * width
    return Restriction(code, kept, 4 * width)
