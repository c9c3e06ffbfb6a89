"""The mathematics of the engine's instructions for a single row.

Sizes are in bytes and whole vectors; rows are padded with zeros. y is written, x is read; both are addresses.
⊙ is the element-wise product, σ the sigmoid function.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lamina.engine.products import compiled
from lamina.engine.vectors import (
    BYTES,
    LANES,
    absolute,
    exp,
    first_lanes,
    fma,
    lane_max,
    lane_sum,
    load,
    load_float,
    log,
    maximum,
    splat,
    store,
    store_float,
    store_lane_sums,
    where_negative,
)

Floats = NDArray[np.float32]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
f32 = np.float32
HIDDEN = f32(-1e30)  # the score of masked tokens and keys; its exponential is 0


@compiled
def embed(y: int, table: int, row_bytes: int, token: int, scale: np.float32, position: int) -> None:
    """y = scale·E[token] + PE[position]; `position` is an address, or 0 for none."""
    factor, row = splat(scale), table + token * row_bytes
    for k in range(0, row_bytes, BYTES):
        value = load(row + k) * factor
        store(y + k, value + load(position + k) if position else value)


@compiled
def norm(y: int, x: int, width: int, gain: int, shift: int, epsilon: np.float32) -> None:
    """y = (x − mean) / √(variance + ε) · gain + shift."""
    total, squares = splat(f32(0)), splat(f32(0))
    whole = width // LANES * BYTES
    left = width % LANES
    for k in range(0, 4 * width, BYTES):  # padding is 0
        total = total + load(x + k)
    mean = splat(lane_sum(total) / f32(width))
    for k in range(0, whole, BYTES):
        deviation = load(x + k) - mean
        squares = fma(deviation, deviation, squares)
    if left:
        deviation = first_lanes(load(x + whole) - mean, left, f32(0))
        squares = fma(deviation, deviation, squares)
    scale = splat(f32(1) / np.sqrt(lane_sum(squares) / f32(width) + epsilon))
    for k in range(0, 4 * width, BYTES):
        store(y + k, fma((load(x + k) - mean) * scale, load(gain + k), load(shift + k)))


@compiled
def mix(y: int, x: int, size: int, weights: int, accumulate: int) -> None:
    """y = w ⊙ x, or y + w ⊙ x."""
    for k in range(0, size, BYTES):
        before = load(y + k) if accumulate else splat(f32(0))
        store(y + k, fma(load(weights + k), load(x + k), before))


@compiled
def copy(y: int, x: int, size: int) -> None:
    """y = x."""
    for k in range(0, size, BYTES):
        store(y + k, load(x + k))


@compiled
def softmax(x: int, count: int, scale: np.float32) -> np.float32:
    """x = e^(scale·(x − max)) in place, zero-padded to a whole vector; return 1 / Σ x."""
    last = (count - 1) // LANES * BYTES
    store(x + last, first_lanes(load(x + last), count - last // 4, HIDDEN))
    highest = load(x)
    for k in range(BYTES, last + BYTES, BYTES):
        highest = maximum(highest, load(x + k))
    shift, factor, total = splat(lane_max(highest)), splat(scale), splat(f32(0))
    for k in range(0, last + BYTES, BYTES):
        e = exp((load(x + k) - shift) * factor)
        store(x + k, e)
        total = total + e
    return f32(1) / lane_sum(total)


@compiled
def attend(
    y: int,
    query: int,
    keys: int,
    values: int,
    step: int,
    numbers: Int32,
    start: int,
    count: int,
    heads: int,
    size: int,
    scale: np.float32,
    scores: Floats,
    record: int,
) -> None:
    """y = softmax(scale·q·Kᵀ)·V of one row and every head, over rows `numbers[start : start + count]` of K and V."""
    last, stride = count - 1, scores.shape[1]
    first = scores.ctypes.data
    for n in range(0, count, 4):
        k0 = keys + step * numbers[start + n]
        k1 = keys + step * numbers[start + min(n + 1, last)]
        k2 = keys + step * numbers[start + min(n + 2, last)]
        k3 = keys + step * numbers[start + min(n + 3, last)]
        for h in range(heads):
            a, b, c, d = splat(f32(0)), splat(f32(0)), splat(f32(0)), splat(f32(0))
            for k in range(h * size, (h + 1) * size, BYTES):
                q = load(query + k)
                a, b = fma(q, load(k0 + k), a), fma(q, load(k1 + k), b)
                c, d = fma(q, load(k2 + k), c), fma(q, load(k3 + k), d)
            store_lane_sums(first + 4 * (h * stride + n), a, b, c, d)
    for h in range(heads):
        weights = first + 4 * h * stride
        factor = softmax(weights, count, scale)
        if record:
            for n in range(count):
                store_float(record + 4 * (h * stride + n), load_float(weights + 4 * n) * factor)
        for k in range(h * size, (h + 1) * size, BYTES):
            even, odd = splat(f32(0)), splat(f32(0))
            for n in range(0, count, 2):  # the weight past the end is 0
                v = values + step * numbers[start + n] + k
                w = values + step * numbers[start + min(n + 1, last)] + k
                even = fma(splat(load_float(weights + 4 * n)), load(v), even)
                odd = fma(splat(load_float(weights + 4 * n + 4)), load(w), odd)
            store(y + k, (even + odd) * splat(factor))


@compiled
def point(
    scores: int,
    query: int,
    keys: int,
    step: int,
    size: int,
    gates: int,
    tokens: int,
    token_step: int,
    numbers: Int32,
    start: int,
    count: int,
    scale: np.float32,
    gate: np.float32,
    normaliser: np.float32,
    weights: Floats,
) -> np.float32:
    """Add copy mass to the scores of source tokens; return the new normaliser.

    α = softmax(scale·q·Kᵀ), p = σ(gate + Σ α_i·g_i), score_v = log(e^score_v + (1 − p)/p·e^n·α_i) for every x_i = v,
    and n − log p. Rows `numbers[start : start + count]` hold keys, g and tokens (as floats).
    """
    last, alpha = count - 1, weights.ctypes.data
    for n in range(0, count, 4):
        k0 = keys + step * numbers[start + n]
        k1 = keys + step * numbers[start + min(n + 1, last)]
        k2 = keys + step * numbers[start + min(n + 2, last)]
        k3 = keys + step * numbers[start + min(n + 3, last)]
        a, b, c, d = splat(f32(0)), splat(f32(0)), splat(f32(0)), splat(f32(0))
        for k in range(0, size, BYTES):
            q = load(query + k)
            a, b = fma(q, load(k0 + k), a), fma(q, load(k1 + k), b)
            c, d = fma(q, load(k2 + k), c), fma(q, load(k3 + k), d)
        store_lane_sums(alpha + 4 * n, a, b, c, d)
    factor, total = softmax(alpha, count, scale), f32(0)
    for n in range(count):
        total += load_float(alpha + 4 * n) * load_float(gates + step * numbers[start + n])
    logit = float(gate + total * factor)
    normaliser += f32(math.log1p(math.exp(-abs(logit))) - min(logit, 0.0))
    copied = float(normaliser) - math.log1p(math.exp(-abs(logit))) - max(logit, 0.0)  # n' + log(1 − p)
    for n in range(count):
        weight = load_float(alpha + 4 * n) * factor
        if weight > f32(0):
            address = scores + 4 * int(load_float(tokens + token_step * numbers[start + n]))
            before, added = float(load_float(address)), copied + math.log(weight)
            store_float(address, f32(max(before, added) + math.log1p(math.exp(-abs(before - added)))))
    return normaliser


@compiled
def running_mean(y: int, x: int, size: int, sums: int, before: int, position: int) -> None:
    """sum = x + the sum of the previous position, if any; y = sum / (position + 1)."""
    factor = splat(f32(1) / f32(position + 1))
    for k in range(0, size, BYTES):
        value = load(x + k)
        if position > 0:
            value = value + load(before + k)
        store(sums + k, value)
        store(y + k, value * factor)


@compiled
def sigmoid_of(x: Any) -> Any:  # vectors
    """σ(x) without overflow: (e^−|x| if x < 0 else 1) / (1 + e^−|x|)."""
    one, e = splat(f32(1)), exp(splat(f32(0)) - absolute(x))
    return where_negative(x, e, one) / (one + e)


@compiled
def gru(y: int, inputs: int, states: int, before: int, size: int) -> None:
    """h' = n + z ⊙ (h − n): r, z = σ(i + s), n = tanh(i + r ⊙ s), where i and s have three parts for r, z and n."""
    one, two = splat(f32(1)), splat(f32(2))
    for k in range(0, size, BYTES):
        reset = sigmoid_of(load(inputs + k) + load(states + k))
        update = sigmoid_of(load(inputs + size + k) + load(states + size + k))
        argument = fma(reset, load(states + 2 * size + k), load(inputs + 2 * size + k))
        new = two * sigmoid_of(two * argument) - one
        store(y + k, fma(update, load(before + k) - new, new))


@compiled
def pool(
    y: int, x: int, x_step: int, size: int, tokens: Int64, first: int, count: int, from_id: int, mean: int
) -> None:
    """Mean or max pooling over a source's rows; rows with tokens below `from_id` are 0, and not counted in the mean."""
    pooled = 0
    for n in range(count):
        if tokens[first + n] >= from_id:
            pooled += 1
    for k in range(0, size, BYTES):
        total, highest = splat(f32(0)), splat(f32(0) if pooled < count else f32(-np.inf))
        for n in range(count):
            if tokens[first + n] >= from_id:
                value = load(x + (first + n) * x_step + k)
                total, highest = total + value, maximum(value, highest)
        store(y + k, total * splat(f32(1) / f32(max(pooled, 1))) if mean else highest)


@compiled
def log_sum_exp(x: int, size: int) -> np.float32:
    """log Σ e^x."""
    highest = load(x)
    for k in range(BYTES, size, BYTES):
        highest = maximum(highest, load(x + k))
    largest = lane_max(highest)
    shift, total = splat(largest), splat(f32(0))
    for k in range(0, size, BYTES):
        total = total + exp(load(x + k) - shift)
    return largest + f32(math.log(lane_sum(total)))


@compiled
def log_add(y: int, x: int, size: int, normaliser: np.float32, accumulate: int) -> None:
    """y = x − n, or log(e^y + e^(x − n))."""
    shift, zero, one = splat(normaliser), splat(f32(0)), splat(f32(1))
    for k in range(0, size, BYTES):
        value = load(x + k) - shift
        if accumulate:
            before = load(y + k)
            difference = before - value
            value = maximum(before, value) + log(one + exp(zero - maximum(difference, zero - difference)))
        store(y + k, value)
