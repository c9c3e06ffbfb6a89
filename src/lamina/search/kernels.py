"""The inner loops of decoding on a CPU, compiled by numba at the first import and kept on disk from then on.

A step is many small operations: each of these does in one call, and one pass over its data, what takes torch five to
ten. Arrays are 32-bit floats in C order. R rows are W beams of each of B sources; letters as everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Numbers = NDArray[np.int64]
Function = TypeVar("Function", bound=Callable[..., Any])

CHUNK = 64  # neighbours that are looked at together first

f4, i4 = np.float32, np.int32
LOG2_E, LEAST, HALF = f4(math.log2(math.e)), f4(-126), f4(0.5)
P1, P2, P3, P4, P5, P6 = (f4(math.log(2) ** n / math.factorial(n)) for n in range(1, 7))


def compiled(signature: str | None = None, **options: Any) -> Callable[[Function], Function]:
    """Compile for this signature; what has none becomes part of its callers.

    The result is kept on disk, but a disk that is full, damaged or not to be written stops nobody.
    """

    def compile_it(function: Function) -> Function:
        njit: Any = partial(numba.njit, signature, fastmath=True, error_model="numpy", **options)
        try:
            return cast("Function", njit(cache=signature is not None)(function))
        except Exception:
            return cast("Function", njit()(function))

    return compile_it


@compiled(inline="always")
def power_of_e(x: np.float32) -> np.float32:
    """e^x for x ≤ 0 as 2^i·2^f: i goes into the exponent's bits, 2^f is a polynomial. Compilers can do 8 at a time."""
    y = max(x * LOG2_E, LEAST)
    i = i4(y - HALF)
    f = y - f4(i)
    power = (((((P6 * f + P5) * f + P4) * f + P3) * f + P2) * f + P1) * f + f4(1)
    return power * i4((i + i4(127)) << i4(23)).view(f4)


@compiled(inline="always")
def some_above(scores: Floats, chunk: int, threshold: np.float32) -> bool:
    """Whether any of a chunk is above a threshold; compilers can do 8 at a time, as they cannot with a maximum."""
    above = f4(0)
    for n in range(CHUNK):
        above += f4(scores[chunk * CHUNK + n] > threshold)
    return bool(above > 0)


@compiled()
def largest(scores: Floats) -> np.float32:
    """The largest of many."""
    most, chunks = scores[0], len(scores) // CHUNK
    for c in range(chunks):
        if some_above(scores, c, most):
            for n in range(c * CHUNK, (c + 1) * CHUNK):
                most = max(most, scores[n])
    for n in range(chunks * CHUNK, len(scores)):
        most = max(most, scores[n])
    return most


@compiled("f4[:,::1](f4[:,::1])")
def log_sum_exp(scores_RV: Floats) -> Floats:
    """log Σ e^score of every row, (R, 1)."""
    rows, vocabulary = scores_RV.shape
    result_R1 = np.empty((rows, 1), f4)
    for r in range(rows):
        scores_V = scores_RV[r]
        most, total = largest(scores_V), f4(0)
        for v in range(vocabulary):
            total += power_of_e(scores_V[v] - most)
        result_R1[r, 0] = most + f4(math.log(total))
    return result_R1


@compiled("Tuple((f4[:,::1],i8[:,::1],i8[:,::1]))(f4[:,::1],f4[:,:,::1],i8)")
def best_sums(before_BW: Floats, scores_BWV: Floats, count: int) -> tuple[Floats, Numbers, Numbers]:
    """The `count` best of each source's W×V sums of before and score, best first: sums, rows and tokens, (B, N)."""
    sources, rows, vocabulary = scores_BWV.shape
    sum_BN = np.full((sources, count), f4(-np.inf))
    row_BN, token_BN = np.zeros((sources, count), np.int64), np.zeros((sources, count), np.int64)
    for b in range(sources):
        sums, rows_N, tokens = sum_BN[b], row_BN[b], token_BN[b]
        for w in range(rows):
            scores_V, before = scores_BWV[b, w], before_BW[b, w]
            for c in range((vocabulary + CHUNK - 1) // CHUNK):
                if (c + 1) * CHUNK <= vocabulary and not some_above(scores_V, c, sums[count - 1] - before):
                    continue
                for v in range(c * CHUNK, min((c + 1) * CHUNK, vocabulary)):
                    total, place = scores_V[v] + before, count - 1
                    if not total > sums[place]:
                        continue
                    while place > 0 and total > sums[place - 1]:
                        sums[place], rows_N[place], tokens[place] = (
                            sums[place - 1],
                            rows_N[place - 1],
                            tokens[place - 1],
                        )
                        place -= 1
                    sums[place], rows_N[place], tokens[place] = total, w, v
    return sum_BN, row_BN, token_BN


@compiled("f4[:,::1](f4[:,::1],f4[:,::1],f4[::1])")
def few_rows_product(x_RD: Floats, weight_ND: Floats, bias_N: Floats) -> Floats:
    """W·x + b for a few rows: the matrix is read once, in its own order, and that is what takes the time."""
    rows, width = x_RD.shape
    result_RN = np.empty((rows, len(weight_ND)), f4)
    for n in range(len(weight_ND)):
        weight_D = weight_ND[n]
        for r in range(rows):
            x_D, total = x_RD[r], f4(0)
            for d in range(width):
                total += weight_D[d] * x_D[d]
            result_RN[r, n] = total + bias_N[n]
    return result_RN


@compiled()
def norm_in_place(x_RD: Floats, gain_D: Floats, shift_D: Floats, eps: np.float32) -> None:
    """LayerNorm."""
    rows, width = x_RD.shape
    for r in range(rows):
        x_D, total, squares = x_RD[r], f4(0), f4(0)
        for d in range(width):
            total += x_D[d]
        mean = total / f4(width)
        for d in range(width):
            away = x_D[d] - mean
            squares += away * away
        scale = f4(1) / np.sqrt(squares / f4(width) + eps)
        for d in range(width):
            x_D[d] = (x_D[d] - mean) * scale * gain_D[d] + shift_D[d]


@compiled("f4[:,::1](f4[:,::1],f4[::1],f4[::1],f4)")
def norm(x_RD: Floats, gain_D: Floats, shift_D: Floats, eps: np.float32) -> Floats:
    """LayerNorm(x)."""
    normed_RD = x_RD.copy()
    norm_in_place(normed_RD, gain_D, shift_D, eps)
    return normed_RD


@compiled("f4[:,::1](f4[:,::1],f4[:,::1],f4[::1],f4[::1],f4)")
def add_and_norm(x_RD: Floats, result_RD: Floats, gain_D: Floats, shift_D: Floats, eps: np.float32) -> Floats:
    """LayerNorm(x + result)."""
    total_RD = x_RD + result_RD
    norm_in_place(total_RD, gain_D, shift_D, eps)
    return total_RD


@compiled()
def attend(
    query_K: Floats, keys_MK: Floats, values_MK: Floats, places: Numbers, weights: Floats, result_K: Floats
) -> None:
    """softmax(Kq/√K)V over these places, for one head of one row."""
    size = len(query_K)
    scale, most, total = f4(1) / np.sqrt(f4(size)), f4(-np.inf), f4(0)
    for n in range(len(places)):
        key, score = keys_MK[places[n]], f4(0)
        for k in range(size):
            score += query_K[k] * key[k]
        weights[n] = score * scale
        most = max(most, weights[n])
    for n in range(len(places)):
        weights[n] = power_of_e(weights[n] - most)
        total += weights[n]
    result_K[:] = f4(0)
    for n in range(len(places)):
        value, weight = values_MK[places[n]], weights[n] / total
        for k in range(size):
            result_K[k] += weight * value[k]


@compiled("f4[:,::1](f4[:,::1],f4[:,:,:,::1],f4[:,:,:,::1],f4[:,:,::1])")
def attend_to_past(packed_RX: Floats, keys_BHMK: Floats, values_BHMK: Floats, seen_BWM: Floats) -> Floats:
    """Write each row's key and value of this position, then attend from its query to all it descends from: (R, D).

    A row of `packed` is query, key and value. Where `seen` is below 0, nothing is read.
    """
    sources, heads, _, size = keys_BHMK.shape
    beams, written = seen_BWM.shape[1:]
    width = heads * size
    result_RD = np.empty((len(packed_RX), width), f4)
    for b in range(sources):
        for w in range(beams):
            packed, place = packed_RX[b * beams + w], written - beams + w
            for h in range(heads):
                for k in range(size):
                    keys_BHMK[b, h, place, k] = packed[width + h * size + k]
                    values_BHMK[b, h, place, k] = packed[2 * width + h * size + k]
    own_WM, count_W, weights = np.empty((beams, written), np.int64), np.empty(beams, np.int64), np.empty(written, f4)
    for b in range(sources):
        for w in range(beams):
            count = 0
            for m in range(written):
                own_WM[w, count] = m
                count += seen_BWM[b, w, m] >= 0
            count_W[w] = count
        for h in range(heads):
            part = slice(h * size, (h + 1) * size)
            for w in range(beams):
                r, own = b * beams + w, own_WM[w, : count_W[w]]
                attend(packed_RX[r, part], keys_BHMK[b, h], values_BHMK[b, h], own, weights, result_RD[r, part])
    return result_RD


@compiled("f4[:,::1](f4[:,::1],f4[:,:,:,::1],f4[:,:,:,::1],b1[:,::1])")
def attend_to_memory(query_RD: Floats, keys_BHMK: Floats, values_BHMK: Floats, valid_BM: NDArray[np.bool_]) -> Floats:
    """Attend from each row's query to what is real in the memory of its source: (R, D)."""
    sources, heads, length, size = keys_BHMK.shape
    beams = len(query_RD) // sources
    result_RD = np.empty(query_RD.shape, f4)
    real, weights = np.empty(length, np.int64), np.empty(length, f4)
    for b in range(sources):
        count = 0
        for m in range(length):
            real[count] = m
            count += valid_BM[b, m]
        for h in range(heads):
            part = slice(h * size, (h + 1) * size)
            for r in range(b * beams, (b + 1) * beams):
                attend(query_RD[r, part], keys_BHMK[b, h], values_BHMK[b, h], real[:count], weights, result_RD[r, part])
    return result_RD
