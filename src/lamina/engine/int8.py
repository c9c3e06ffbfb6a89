"""8-bit matrix products: weights are quantised when they are packed, inputs row by row at run time.

    y = s_x·s_w·Σ q_x·q_w + b        q = round(x / s), s = max|x| / 127 of a row of inputs, or of a column of weights

With VNNI one instruction multiplies u8 by s8 and sums four products in each lane; inputs are shifted by 128 to make
them unsigned, and sums start from −128·Σ q_w to compensate. Without it, weights and inputs are widened to 16 bits and
summed in pairs. Both are exact in integers, so every CPU gives the same result.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numpy.typing import NDArray

from lamina.engine.products import PANEL, PLACES, compiled, padded, switch_on_rows, tile_size, write_tile
from lamina.engine.tuning import INT8_UNROLL, TILE_VECTORS
from lamina.engine.vectors import (
    BYTES,
    F32,
    FLOATS,
    I8,
    I16,
    I32,
    I64,
    INSTRUCTION_SET,
    INTEGERS,
    LANES,
    absolute,
    broadcast,
    call_llvm,
    constant,
    fma,
    instruction,
    lane_max,
    lane_sum,
    load,
    load_at,
    loop,
    maximum,
    multiply_add,
    shuffle,
    splat,
    store_at,
    store_float,
    vector,
)

VNNI = INSTRUCTION_SET.vnni
GROUP = 4 if VNNI else 2  # adjacent inputs that one instruction sums in each lane
INPUT_BYTES = 1 if VNNI else 2  # bytes of a quantised input
DEPTH_MULTIPLE = max(LANES, GROUP * INT8_UNROLL)  # the number of inputs is padded to a multiple of this
f32 = np.float32


class PackedInt8(NamedTuple):
    """Packed 8-bit weights (panels, inputs / GROUP, PANEL, GROUP), with a scale and a start for each column."""

    weights: NDArray[np.int8]
    scales: NDArray[np.float32]
    starts: NDArray[np.int32]  # initial values of the sums


def pack_int8(weight_ND: NDArray[np.float32]) -> PackedInt8:
    """Quantise a matrix (outputs, inputs) per output and pack it."""
    outputs, inputs = weight_ND.shape
    matrix = np.zeros((padded(outputs, PANEL), padded(inputs, DEPTH_MULTIPLE)), np.float32)
    matrix[:outputs, :inputs] = weight_ND
    scale = np.maximum(np.abs(matrix).max(axis=1), 1e-12) / 127
    with np.errstate(invalid="ignore"):  # NaN weights propagate through their scale
        quantised = np.rint(matrix / scale[:, None]).astype(np.int8)
    panels = quantised.reshape(-1, PANEL, matrix.shape[1] // GROUP, GROUP)
    shift = -128 if VNNI else 0
    starts = shift * quantised.astype(np.int32).sum(axis=1, dtype=np.int32)
    return PackedInt8(np.ascontiguousarray(panels.transpose(0, 2, 1, 3)), scale.astype(np.float32), starts)


def dot(builder: Any, total: Any, inputs: Any, weights: Any) -> Any:
    """total + Σ of `GROUP` products in every lane; every lane of `inputs` holds the same group."""
    if VNNI:
        name = f"llvm.x86.avx512.vpdpbusd.{32 * LANES}"
        return call_llvm(builder, name, INTEGERS, total, builder.bitcast(inputs, weights.type), weights)
    wide = ir.VectorType(I32, 2 * LANES)
    pairs = builder.bitcast(inputs, ir.VectorType(I16, 2 * LANES))
    products = builder.mul(builder.sext(pairs, wide), builder.sext(weights, wide))
    even, odd = (shuffle(builder, products, products, range(first, 2 * LANES, 2)) for first in (0, 1))
    return builder.add(total, builder.add(even, odd))  # LLVM selects vpmaddwd or an equivalent


def int8_tile(
    builder: Any,
    rows: int,
    x: Any,
    x_step: Any,
    scales: Any,
    panel: Any,
    depth: Any,
    out: Any,
    out_step: Any,
    starts: Any,
    columns: Any,
    bias: Any,
    mode: Any,
) -> None:
    """out[r] = scale·column_scale·(x[r]·panel) + bias for a fixed number of rows of quantised inputs."""
    places = PLACES[: rows * TILE_VECTORS]
    x_rows = [builder.add(x, builder.mul(x_step, ir.Constant(I64, row))) for row in range(rows)]
    bytes_of, wide = (ir.VectorType(kind, GROUP * LANES) for kind in (I8, I16))

    def body(k: Any, sums: list[Any]) -> list[Any]:
        block = builder.add(panel, builder.mul(k, ir.Constant(I64, PANEL)))
        offset = builder.mul(k, ir.Constant(I64, INPUT_BYTES))
        new = dict(zip(places, sums, strict=True))
        for u in range(INT8_UNROLL):
            packed = [load_at(builder, block, GROUP * (u * PANEL + LANES * v), bytes_of) for v in range(TILE_VECTORS)]
            weights = packed if VNNI else [builder.sext(each, wide) for each in packed]
            for row in range(rows):
                group = load_at(builder, builder.add(x_rows[row], offset), 4 * u, I32)
                inputs = broadcast(builder, group, INTEGERS)
                for v in range(TILE_VECTORS):
                    new[row, v] = dot(builder, new[row, v], inputs, weights[v])
        return list(new.values())

    first = [load_at(builder, starts, BYTES * v, INTEGERS) for v in range(TILE_VECTORS)]
    sums = loop(builder, depth, GROUP * INT8_UNROLL, [first[v] for _, v in places], body)
    column = [load_at(builder, columns, BYTES * v, FLOATS) for v in range(TILE_VECTORS)]
    shift = [load_at(builder, bias, BYTES * v, FLOATS) for v in range(TILE_VECTORS)]
    scale = [broadcast(builder, load_at(builder, scales, 4 * row, F32)) for row in range(rows)]
    results = [
        multiply_add(builder, builder.sitofp(total, FLOATS), builder.fmul(scale[row], column[v]), shift[v])
        for (row, v), total in zip(places, sums, strict=True)
    ]
    write_tile(builder, places, results, out, out_step, mode)


run_int8_tile = switch_on_rows(int8_tile, 11)


@instruction(types.void, types.int64, vector, types.float32)
def store_quantised(builder: Any, address: Any, values: Any, scale: Any) -> None:
    """round(x·scale): shifted by 128 as u8 for VNNI, else as s16."""
    shifted = multiply_add(builder, values, broadcast(builder, scale), constant(128.5))
    whole = builder.fptosi(shifted, INTEGERS)  # positive, so truncation rounds
    if not VNNI:
        whole = builder.sub(whole, constant(128, INTEGERS))
    narrow = builder.trunc(whole, ir.VectorType(I8 if VNNI else I16, LANES))
    store_at(builder, narrow, address, align=1)


@compiled
def quantise_row(x: int, out: int, inputs: int, scale: int) -> None:
    """Quantise one row and write its scale, which is NaN if an input is infinite or NaN."""
    largest, zero = splat(f32(1e-12)), splat(f32(0))
    taint = zero  # becomes NaN if an input is infinite or NaN
    for k in range(0, inputs, LANES):
        value = load(x + 4 * k)
        largest = maximum(absolute(value), largest)
        taint = fma(value, zero, taint)
    most = lane_max(largest)
    store_float(scale, most / f32(127) + lane_sum(taint))
    for k in range(0, inputs, LANES):
        store_quantised(out + INPUT_BYTES * k, load(x + 4 * k), f32(127) / most)


@compiled
def product_int8(
    x: int,
    x_step: int,
    rows: int,
    packed: int,
    depth: int,
    panels: int,
    out: int,
    out_step: int,
    bias: int,
    columns: int,
    starts: int,
    mode: int,
    quantised: int,
    scales: int,
) -> None:
    """out = x·Wᵀ + b; `quantised` and `scales` are scratch buffers."""
    x_bytes = INPUT_BYTES * depth
    for r in range(rows):
        quantise_row(x + r * x_step, quantised + r * x_bytes, depth, scales + 4 * r)
    for p in range(panels):
        offset = 4 * PANEL * p
        r = 0
        while r < rows:
            size = tile_size(rows - r)
            run_int8_tile(
                size,
                quantised + r * x_bytes,
                x_bytes,
                scales + 4 * r,
                packed + PANEL * p * depth,
                depth,
                out + r * out_step + offset,
                out_step,
                starts + offset,
                columns + offset,
                bias + offset,
                mode,
            )
            r += size
