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
Places = NDArray[np.uint64]
Four = tuple[np.float32, np.float32, np.float32, np.float32]
Function = TypeVar("Function", bound=Callable[..., Any])

CHUNK = 64  # neighbours that are looked at together first

f4, i4 = np.float32, np.int32
TINY = f4(1e-30)
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
            least = sums[count - 1] - before
            for c in range((vocabulary + CHUNK - 1) // CHUNK):
                if (c + 1) * CHUNK <= vocabulary and not some_above(scores_V, c, least):
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
                    least = sums[count - 1] - before
    return sum_BN, row_BN, token_BN


@compiled(inline="always")
def dot(x_RX: Floats, r: int, start: int, rows_ND: Floats, n: int) -> np.float32:
    """x·row, for the part of x's row r that starts there."""
    total = f4(0)
    for d in range(rows_ND.shape[1]):
        total += x_RX[r, start + d] * rows_ND[n, d]
    return total


@compiled(inline="always")
def four_dots(x_RX: Floats, r: int, start: int, rows_ND: Floats, n: int, m: int, o: int, p: int) -> Four:
    """The same for four rows at once, which reads x once."""
    first, second, third, fourth = f4(0), f4(0), f4(0), f4(0)
    for d in range(rows_ND.shape[1]):
        x = x_RX[r, start + d]
        first += x * rows_ND[n, d]
        second += x * rows_ND[m, d]
        third += x * rows_ND[o, d]
        fourth += x * rows_ND[p, d]
    return first, second, third, fourth


@compiled("f4[:,::1](f4[:,::1],f4[:,::1])")
def few_rows_product(x_RD: Floats, weight_ND: Floats) -> Floats:
    """W·x for a few rows: the matrix is read once, in its own order, and that is what takes the time."""
    rows, outputs = len(x_RD), len(weight_ND)
    result_RN = np.empty((rows, outputs), f4)
    fours = outputs // 4 * 4
    for n in range(0, fours, 4):
        for r in range(rows):
            dots = four_dots(x_RD, r, 0, weight_ND, n, n + 1, n + 2, n + 3)
            result_RN[r, n], result_RN[r, n + 1], result_RN[r, n + 2], result_RN[r, n + 3] = dots
    for n in range(fours, outputs):
        for r in range(rows):
            result_RN[r, n] = dot(x_RD, r, 0, weight_ND, n)
    return result_RN


@compiled("f4[:,::1](f4[:,::1],i1[:,::1],f4[::1])")
def few_rows_int8_product(x_RD: Floats, weight_ND: NDArray[np.int8], scale_N: Floats) -> Floats:
    """W·x for a few rows and a matrix in 8 bits, whose rows have a scale each: a quarter to read."""
    (rows, width), outputs = x_RD.shape, len(weight_ND)
    result_RN, four_D = np.empty((rows, outputs), f4), np.empty((4, width), f4)
    for n in range(0, outputs, 4):
        count = min(4, outputs - n)
        for i in range(count):
            for d in range(width):
                four_D[i, d] = f4(weight_ND[n + i, d])
        for r in range(rows):
            dots = four_dots(x_RD, r, 0, four_D, 0, 1, 2, 3)
            for i in range(count):
                result_RN[r, n + i] = dots[i] * scale_N[n + i]
    return result_RN


@compiled("f4[:,::1](f4[:,::1],f4[:,::1],f4[::1])")
def add(x_RD: Floats, result_RD: Floats, bias_D: Floats) -> Floats:
    """x + result + bias, in the place of result."""
    rows, width = x_RD.shape
    for r in range(rows):
        for d in range(width):
            result_RD[r, d] += x_RD[r, d] + bias_D[d]
    return result_RD


@compiled("f4[:,::1](f4[:,::1],f4[::1])")
def relu(x_RD: Floats, bias_D: Floats) -> Floats:
    """max(x + bias, 0), in its place."""
    rows, width = x_RD.shape
    for r in range(rows):
        for d in range(width):
            x_RD[r, d] = max(x_RD[r, d] + bias_D[d], f4(0))
    return x_RD


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


@compiled("f4[:,::1](f4[:,::1],f4[:,::1],f4[::1],f4[::1],f4[::1],f4)")
def add_and_norm(
    x_RD: Floats, result_RD: Floats, bias_D: Floats, gain_D: Floats, shift_D: Floats, eps: np.float32
) -> Floats:
    """LayerNorm(x + result + bias), in the place of result."""
    add(x_RD, result_RD, bias_D)
    norm_in_place(result_RD, gain_D, shift_D, eps)
    return result_RD


@compiled(inline="always")
def attend(
    query_RX: Floats,
    r: int,
    start: int,
    keys_MK: Floats,
    values_MK: Floats,
    places: Places,
    count: int,
    weights: Floats,
    result_RD: Floats,
) -> None:
    """softmax(Kq/√K)V over the first `count` of these places, for the head of row r whose part starts there."""
    size, fours = keys_MK.shape[1], count // 4 * 4
    scale, most, total = f4(1) / np.sqrt(f4(size)), f4(-np.inf), f4(0)
    for n in range(0, fours, 4):
        p0, p1, p2, p3 = places[n], places[n + 1], places[n + 2], places[n + 3]
        dots = four_dots(query_RX, r, start, keys_MK, p0, p1, p2, p3)
        weights[n], weights[n + 1], weights[n + 2], weights[n + 3] = dots
    for n in range(fours, count):
        weights[n] = dot(query_RX, r, start, keys_MK, places[n])
    for n in range(count):
        most = max(most, weights[n])
    for n in range(count):
        weights[n] = power_of_e((weights[n] - most) * scale)
        total += weights[n]
    for k in range(size):
        result_RD[r, start + k] = f4(0)
    for n in range(0, fours, 4):
        p0, p1, p2, p3 = places[n], places[n + 1], places[n + 2], places[n + 3]
        w0, w1, w2, w3 = weights[n], weights[n + 1], weights[n + 2], weights[n + 3]
        for k in range(size):
            result_RD[r, start + k] += (
                w0 * values_MK[p0, k] + w1 * values_MK[p1, k] + w2 * values_MK[p2, k] + w3 * values_MK[p3, k]
            )
    for n in range(fours, count):
        p0, w0 = places[n], weights[n]
        for k in range(size):
            result_RD[r, start + k] += w0 * values_MK[p0, k]
    for k in range(size):
        result_RD[r, start + k] /= max(total, TINY)  # 0 if there is no place at all


@compiled("f4[:,::1](f4[:,::1],f4[::1],f4[:,:,:,::1],f4[:,:,:,::1],f4[:,:,::1])")
def attend_to_past(
    packed_RX: Floats, bias_X: Floats, keys_BHMK: Floats, values_BHMK: Floats, seen_BWM: Floats
) -> Floats:
    """Write each row's key and value of this position, then attend from its query to all it descends from: (R, D).

    A row of `packed` is query, key and value, to which the bias is added. Where `seen` is below 0, nothing is read.
    """
    sources, heads, _, size = keys_BHMK.shape
    beams, written = seen_BWM.shape[1:]
    width = heads * size
    result_RD = np.empty((len(packed_RX), width), f4)
    own_M, weights = np.empty(written, np.uint64), np.empty(written, f4)
    for b in range(sources):
        for w in range(beams):
            r, place = b * beams + w, written - beams + w
            for x in range(3 * width):
                packed_RX[r, x] += bias_X[x]
            for h in range(heads):
                for k in range(size):
                    keys_BHMK[b, h, place, k] = packed_RX[r, width + h * size + k]
                    values_BHMK[b, h, place, k] = packed_RX[r, 2 * width + h * size + k]
        for w in range(beams):
            count = 0
            for m in range(written):
                own_M[count] = m
                count += seen_BWM[b, w, m] >= 0
            for h in range(heads):
                r, keys_MK, values_MK = b * beams + w, keys_BHMK[b, h], values_BHMK[b, h]
                attend(packed_RX, r, h * size, keys_MK, values_MK, own_M, count, weights, result_RD)
    return result_RD


@compiled("Tuple((f4[:,:,:,::1],f4[:,:,:,::1]))(f4[:,::1],f4[::1],i8,i8)")
def split_heads(packed_RX: Floats, bias_X: Floats, sources: int, heads: int) -> tuple[Floats, Floats]:
    """Keys and values, (B, H, M, K), which are the two halves of every row, with their bias."""
    rows, width = len(packed_RX), len(bias_X) // 2
    size, length = width // heads, rows // sources
    keys_BHMK = np.empty((sources, heads, length, size), f4)
    values_BHMK = np.empty((sources, heads, length, size), f4)
    for r in range(rows):
        b, m = r // length, r % length
        for h in range(heads):
            for k in range(size):
                x = h * size + k
                keys_BHMK[b, h, m, k] = packed_RX[r, x] + bias_X[x]
                values_BHMK[b, h, m, k] = packed_RX[r, width + x] + bias_X[width + x]
    return keys_BHMK, values_BHMK


@compiled("f4[:,::1](f4[:,::1],f4[::1],f4[:,:,:,::1],f4[:,:,:,::1],b1[:,::1])")
def attend_to_memory(
    query_RD: Floats, bias_D: Floats, keys_BHMK: Floats, values_BHMK: Floats, valid_BM: NDArray[np.bool_]
) -> Floats:
    """Attend from each row's query, to which the bias is added, to what is real in its source's memory: (R, D)."""
    sources, heads, length, size = keys_BHMK.shape
    rows, width = query_RD.shape
    queries = rows // sources
    for r in range(rows):
        for d in range(width):
            query_RD[r, d] += bias_D[d]
    result_RD = np.empty((rows, width), f4)
    real, weights = np.empty(length, np.uint64), np.empty(length, f4)
    for b in range(sources):
        count = 0
        for m in range(length):
            real[count] = m
            count += valid_BM[b, m]
        for h in range(heads):
            keys_MK, values_MK = keys_BHMK[b, h], values_BHMK[b, h]
            for r in range(b * queries, (b + 1) * queries):
                attend(query_RD, r, h * size, keys_MK, values_MK, real, count, weights, result_RD)
    return result_RD
