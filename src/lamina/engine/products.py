"""Matrix products x·Wᵀ + b over packed weights, with register tiling.

A packed matrix is a sequence of panels of `PANEL` columns, each laid out (inputs, PANEL), so that it is read once and
sequentially. Sums are always taken in the same order, whatever the number of rows: results are bitwise identical in a
batch of one and in a batch of many.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from lamina.engine.tuning import DEPTH_BLOCK, TILE_ROWS, TILE_VECTORS, UNROLL
from lamina.engine.vectors import (
    F32,
    FLOATS,
    I64,
    LANES,
    at_least,
    broadcast,
    constant,
    load_at,
    loop,
    multiply_add,
    store_at,
)

PANEL = LANES * TILE_VECTORS
STORE, ADD, RELU, NO_BIAS = 0, 1, 2, 4  # modes of writing a result: `ADD` accumulates, `RELU` clamps at 0
PLACES = [(row, v) for row in range(TILE_ROWS) for v in range(TILE_VECTORS)]

Places = list[tuple[int, int]]
Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compile a function for other compiled functions to call, with numpy's division rules and without the GIL."""
    options: Any = {"error_model": "numpy", "nogil": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return cast("Function", numba.njit(**options)(function))


def has(builder: Any, mode: Any, flag: int) -> Any:
    """Whether a flag of the mode is set."""
    return builder.icmp_signed("!=", builder.and_(mode, ir.Constant(I64, flag)), ir.Constant(I64, 0))


def write_tile(builder: Any, places: Places, values: list[Any], out: Any, out_step: Any, mode: Any) -> None:
    """Write a tile's vectors according to the mode."""
    rows = {row: builder.add(out, builder.mul(out_step, ir.Constant(I64, row))) for row, _ in places}
    lowest = builder.select(has(builder, mode, RELU), ir.Constant(F32, 0.0), ir.Constant(F32, float("-inf")))
    floor = broadcast(builder, lowest)
    with builder.if_else(has(builder, mode, ADD)) as (adding, storing):
        for branch, added in ((adding, True), (storing, False)):
            with branch:
                for (row, v), value in zip(places, values, strict=True):
                    offset = 4 * LANES * v
                    if added:
                        value = builder.fadd(load_at(builder, rows[row], offset, FLOATS), value)
                    store_at(builder, at_least(builder, value, floor), rows[row], offset)


def switch_on_rows(emit_tile: Callable[..., None], arguments: int) -> Any:
    """A function of (rows, …) that dispatches to the tile for this number of rows; all arguments are integers."""

    def typed(context: Any, rows: Any, *others: Any) -> Any:
        def emit(target: Any, builder: Any, signature: Any, values: Any) -> Any:
            end = builder.append_basic_block()
            chosen = builder.switch(values[0], end)
            for rows in range(1, TILE_ROWS + 1):
                block = builder.append_basic_block()
                chosen.add_case(ir.Constant(I64, rows), block)
                builder.position_at_end(block)
                emit_tile(builder, rows, *values[1:])
                builder.branch(end)
            builder.position_at_end(end)
            return target.get_dummy_value()

        return types.void(*[types.int64] * (arguments + 1)), emit

    names = ["context", "rows", *(f"argument_{number}" for number in range(arguments))]
    parameters = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names]
    typed.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # numba inspects the signature
    return intrinsic(typed)


def float_tile(
    builder: Any, rows: int, x: Any, x_step: Any, panel: Any, depth: Any, out: Any, out_step: Any, bias: Any, mode: Any
) -> None:
    """out[r] = x[r]·panel + bias for a fixed number of rows."""
    places = PLACES[: rows * TILE_VECTORS]
    unbiased = has(builder, mode, NO_BIAS)
    starts = [
        builder.select(unbiased, constant(0.0), load_at(builder, bias, 4 * LANES * v, FLOATS))
        for v in range(TILE_VECTORS)
    ]
    x_rows = [builder.add(x, builder.mul(x_step, ir.Constant(I64, row))) for row in range(rows)]

    def body(k: Any, sums: list[Any]) -> list[Any]:
        block = builder.add(panel, builder.mul(k, ir.Constant(I64, 4 * PANEL)))
        offset = builder.mul(k, ir.Constant(I64, 4))
        inputs = [builder.add(row, offset) for row in x_rows]
        new = dict(zip(places, sums, strict=True))
        for u in range(UNROLL):
            weights = [load_at(builder, block, 4 * (u * PANEL + LANES * v), FLOATS) for v in range(TILE_VECTORS)]
            for row in range(rows):
                value = broadcast(builder, load_at(builder, inputs[row], 4 * u, F32))
                for v in range(TILE_VECTORS):
                    new[row, v] = multiply_add(builder, value, weights[v], new[row, v])
        return list(new.values())

    sums = loop(builder, depth, UNROLL, [starts[v] for _, v in places], body)
    write_tile(builder, places, sums, out, out_step, mode)


run_float_tile = switch_on_rows(float_tile, 8)


@compiled
def tile_size(rows: int) -> int:
    """Rows of the next tile when `rows` are left, so that tiles are of nearly equal size."""
    tiles = (rows + TILE_ROWS - 1) // TILE_ROWS
    return (rows + tiles - 1) // tiles


@compiled
def product(
    x: int, x_step: int, rows: int, packed: int, depth: int, panels: int, out: int, out_step: int, bias: int, mode: int
) -> None:
    """out = x·Wᵀ + b for rows of floats, written according to `mode`."""
    for p in range(panels):
        for k in range(0, depth, DEPTH_BLOCK):
            first, last = k == 0, k + DEPTH_BLOCK >= depth
            block_mode = mode if last else mode & ~RELU
            if not first:
                block_mode |= ADD | NO_BIAS
            r = 0
            while r < rows:
                size = tile_size(rows - r)
                run_float_tile(
                    size,
                    x + r * x_step + 4 * k,
                    x_step,
                    packed + 4 * PANEL * (p * depth + k),
                    min(DEPTH_BLOCK, depth - k),
                    out + r * out_step + 4 * PANEL * p,
                    out_step,
                    bias + 4 * PANEL * p,
                    block_mode,
                )
                r += size


def padded(size: int, multiple: int) -> int:
    """Round up to a multiple."""
    return -(-size // multiple) * multiple


def pack(weight_ND: NDArray[np.float32]) -> NDArray[np.float32]:
    """Pack a matrix: (outputs, inputs) → (panels, inputs, PANEL), zero-padded."""
    outputs, inputs = weight_ND.shape
    matrix = np.zeros((padded(outputs, PANEL), padded(inputs, UNROLL)), np.float32)
    matrix[:outputs, :inputs] = weight_ND
    panels = matrix.reshape(-1, PANEL, matrix.shape[1])
    return np.ascontiguousarray(panels.transpose(0, 2, 1))
