"""SIMD vectors of 32-bit floats for compiled functions, emitted as LLVM IR.

`Vector` is as wide as this machine's registers (`LANES`). Addresses are plain integers, in bytes. Loops over vectors
written with these functions compile to exactly these instructions, independent of auto-vectorisation.
"""

from __future__ import annotations

import inspect
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.datamodel import models, registry
from numba.extending import intrinsic, overload
from numpy.polynomial import Chebyshev, Polynomial

from lamina.base.cpu import chosen_set

INSTRUCTION_SET = chosen_set()
LANES = INSTRUCTION_SET.lanes
BYTES = 4 * LANES  # bytes of a vector

F32, I1, I8, I16, I32, I64 = ir.FloatType(), *(ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
FLOATS, INTEGERS = ir.VectorType(F32, LANES), ir.VectorType(I32, LANES)
POINTER = ir.PointerType()


class Vector(types.Type):
    """`LANES` floats."""

    def __init__(self) -> None:
        super().__init__(name=f"Vector{LANES}")


@registry.register_default(Vector)
class VectorModel(models.PrimitiveModel):
    """Represents `Vector` as LLVM's vector type."""

    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, FLOATS)  # type: ignore[no-untyped-call]


vector = Vector()
Emit = Callable[..., Any]  # (builder, *values) → value


def instruction(result: Any, *arguments: Any) -> Callable[[Emit], Any]:
    """Turn a function that emits LLVM instructions into one that compiled code can call."""

    def decorate(emit: Emit) -> Any:
        def typed(context: Any, *given: Any) -> Any:
            return result(*arguments), lambda _, builder, __, values: emit(builder, *values)

        typed.__name__, typed.__doc__ = emit.__name__, emit.__doc__
        typed.__signature__ = inspect.signature(emit)  # type: ignore[attr-defined]  # numba inspects the signature
        return intrinsic(typed)

    return decorate


def typed_call_at(context: Any, address: Any, arguments: Any) -> Any:
    """Call the compiled function at an address, which has no result, with a tuple of arguments."""

    def emit(target: Any, builder: Any, signature: Any, values: Any) -> Any:
        kind = ir.FunctionType(target.get_value_type(types.none), [target.get_value_type(each) for each in arguments])
        function = builder.inttoptr(values[0], kind.as_pointer())
        builder.call(function, cgutils.unpack_tuple(builder, values[1], len(arguments)))
        return target.get_dummy_value()

    return types.void(types.int64, arguments), emit


call_at: Any = intrinsic(typed_call_at)


def call_llvm(builder: Any, name: str, result: Any, *values: Any) -> Any:
    """Call an LLVM intrinsic."""
    kind = ir.FunctionType(result, [value.type for value in values])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), values)


def constant(value: float, kind: Any = FLOATS) -> Any:
    """The same value in every lane."""
    return ir.Constant(kind, [value] * kind.count)


def broadcast(builder: Any, scalar: Any, kind: Any = FLOATS) -> Any:
    """Copy one value to every lane."""
    undefined = ir.Constant(kind, ir.Undefined)
    first = builder.insert_element(undefined, scalar, ir.Constant(I32, 0))
    return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(I32, kind.count), [0] * kind.count))


def shuffle(builder: Any, one: Any, other: Any, lanes: Sequence[int]) -> Any:
    """Select lanes of two vectors by index."""
    return builder.shuffle_vector(one, other, ir.Constant(ir.VectorType(I32, len(lanes)), list(lanes)))


def load_at(builder: Any, address: Any, offset: int, kind: Any) -> Any:
    """Load from an address plus an offset in bytes."""
    place = builder.inttoptr(builder.add(address, ir.Constant(I64, offset)), POINTER)
    return builder.load(place, align=1 if kind in (I8, I16) else 4, typ=kind)


def store_at(builder: Any, value: Any, address: Any, offset: int = 0, align: int = 4) -> None:
    """Store at an address plus an offset in bytes."""
    builder.store(value, builder.inttoptr(builder.add(address, ir.Constant(I64, offset)), POINTER), align=align)


def multiply_add(builder: Any, a: Any, b: Any, c: Any) -> Any:
    """a·b + c, rounded once."""
    return call_llvm(builder, f"llvm.fma.v{LANES}f32", FLOATS, a, b, c)


def at_least(builder: Any, x: Any, floor: Any) -> Any:
    """max(x, floor); NaN stays NaN."""
    return builder.select(builder.fcmp_ordered("<", x, floor), floor, x)


def reduce_lanes(builder: Any, x: Any, combine: Emit) -> Any:
    """Combine all lanes into one value, by halves."""
    size = LANES
    while size > 1:
        size //= 2
        x = combine(builder, x, shuffle(builder, x, x, [(lane + size) % LANES for lane in range(LANES)]))
    return builder.extract_element(x, ir.Constant(I32, 0))


def add_floats(builder: Any, a: Any, b: Any) -> Any:
    """a + b."""
    return builder.fadd(a, b)


def loop(builder: Any, end: Any, step: int, starts: Sequence[Any], body: Emit) -> list[Any]:
    """Emit `for k in range(0, end, step)`, where `body(k, values)` emits one iteration and returns the next values."""
    before, inside, after = builder.block, builder.append_basic_block(), builder.append_basic_block()
    builder.branch(inside)
    builder.position_at_end(inside)
    k = builder.phi(I64)
    values = [builder.phi(start.type) for start in starts]
    following = body(k, values)
    advanced = builder.add(k, ir.Constant(I64, step))
    for phi, start, value in zip([k, *values], [ir.Constant(I64, 0), *starts], [advanced, *following], strict=True):
        phi.add_incoming(start, before)
        phi.add_incoming(value, builder.block)
    builder.cbranch(builder.icmp_signed("<", advanced, end), inside, after)
    builder.position_at_end(after)
    return list(following)


@instruction(vector, types.int64)
def load(builder: Any, address: Any) -> Any:
    """Load a vector."""
    return load_at(builder, address, 0, FLOATS)


@instruction(types.void, types.int64, vector)
def store(builder: Any, address: Any, value: Any) -> None:
    """Store a vector."""
    store_at(builder, value, address)


@instruction(types.float32, types.int64)
def load_float(builder: Any, address: Any) -> Any:
    """Load one float."""
    return load_at(builder, address, 0, F32)


@instruction(types.void, types.int64, types.float32)
def store_float(builder: Any, address: Any, value: Any) -> None:
    """Store one float."""
    store_at(builder, value, address)


@instruction(vector, types.float32)
def splat(builder: Any, value: Any) -> Any:
    """One float in every lane."""
    return broadcast(builder, value)


@instruction(vector, vector, vector, vector)
def fma(builder: Any, a: Any, b: Any, c: Any) -> Any:
    """a·b + c."""
    return multiply_add(builder, a, b, c)


@instruction(vector, vector, vector)
def maximum(builder: Any, a: Any, b: Any) -> Any:
    """The larger in every lane; b where a is NaN."""
    return builder.select(builder.fcmp_ordered(">", a, b), a, b)


@instruction(vector, vector)
def absolute(builder: Any, x: Any) -> Any:
    """|x|."""
    bits = builder.and_(builder.bitcast(x, INTEGERS), constant(0x7FFFFFFF, INTEGERS))
    return builder.bitcast(bits, FLOATS)


@instruction(vector, vector, vector, vector)
def where_negative(builder: Any, x: Any, a: Any, b: Any) -> Any:
    """a where x < 0, else b."""
    return builder.select(builder.fcmp_ordered("<", x, constant(0.0)), a, b)


@instruction(types.float32, vector)
def lane_sum(builder: Any, x: Any) -> Any:
    """The sum of all lanes."""
    return reduce_lanes(builder, x, add_floats)


@instruction(types.float32, vector)
def lane_max(builder: Any, x: Any) -> Any:
    """The largest lane."""
    return reduce_lanes(builder, x, lambda _, a, b: builder.select(builder.fcmp_ordered(">", a, b), a, b))


@instruction(types.int64, vector, vector)
def lanes_above(builder: Any, a: Any, b: Any) -> Any:
    """A bit mask of the lanes in which a > b."""
    bits = builder.bitcast(builder.fcmp_ordered(">", a, b), ir.IntType(LANES))
    return builder.zext(bits, I64)


@instruction(types.int64, types.int64)
def lowest_bit(builder: Any, bits: Any) -> Any:
    """The index of the lowest set bit."""
    return call_llvm(builder, "llvm.cttz.i64", I64, bits, ir.Constant(I1, 0))


@instruction(vector, vector, types.int64, types.float32)
def first_lanes(builder: Any, x: Any, count: Any, other: Any) -> Any:
    """The first `count` lanes of x, and `other` in the remaining ones."""
    lanes = ir.Constant(INTEGERS, list(range(LANES)))
    inside = builder.icmp_signed("<", lanes, broadcast(builder, builder.trunc(count, I32), INTEGERS))
    return builder.select(inside, x, broadcast(builder, other))


def fold_halves(builder: Any, a: Any, b: Any, groups: int) -> Any:
    """Sum each group of lanes of two vectors into half its size: the groups of a, then those of b."""
    size = LANES // groups
    firsts = [side * LANES + g * size + n for side in (0, 1) for g in range(groups) for n in range(size // 2)]
    seconds = [lane + size // 2 for lane in firsts]
    return builder.fadd(shuffle(builder, a, b, firsts), shuffle(builder, a, b, seconds))


@instruction(types.void, types.int64, vector, vector, vector, vector)
def store_lane_sums(builder: Any, address: Any, a: Any, b: Any, c: Any, d: Any) -> None:
    """Store the lane sums of four vectors consecutively."""
    four = fold_halves(builder, fold_halves(builder, a, b, 1), fold_halves(builder, c, d, 1), 2)
    quarter = LANES // 4
    size = quarter
    while size > 1:
        size //= 2
        rotated = [g * quarter + (n + size) % quarter for g in range(4) for n in range(quarter)]
        four = builder.fadd(four, shuffle(builder, four, four, rotated))
    store_at(builder, shuffle(builder, four, four, [g * quarter for g in range(4)]), address)


# 2^f for |f| ≤ ½ to 8e-8: the polynomial of degree 5 through Chebyshev's points
EXP2 = [float(value) for value in Chebyshev.interpolate(np.exp2, 5, domain=[-0.5, 0.5]).convert(kind=Polynomial).coef]


@instruction(vector, vector)
def exp(builder: Any, x: Any) -> Any:
    """e^x for x ≤ 0, as 2^i·2^f: i is added to the exponent bits, and 2^f, |f| ≤ ½, is a polynomial."""
    y = at_least(builder, builder.fmul(x, constant(math.log2(math.e))), constant(-127.0))
    i = builder.fptosi(builder.fsub(y, constant(0.5)), INTEGERS)
    f = builder.fsub(y, builder.sitofp(i, FLOATS))
    power = constant(EXP2[-1])
    for coefficient in reversed(EXP2[:-1]):
        power = multiply_add(builder, power, f, constant(coefficient))
    bits = builder.shl(builder.add(i, constant(127, INTEGERS)), constant(23, INTEGERS))
    return builder.fmul(power, builder.bitcast(bits, FLOATS))


@instruction(vector, vector)
def log(builder: Any, x: Any) -> Any:
    """ln x for normal x > 0: x = 2^e·m with m from √½ to √2, and ln m = 2·artanh((m−1)/(m+1)), a short series."""
    bits = builder.bitcast(x, INTEGERS)
    root_half = constant(0x3F3504F3, INTEGERS)  # the bits of √½
    shifted = builder.sub(bits, root_half)
    exponent = builder.ashr(shifted, constant(23, INTEGERS))
    mantissa = builder.add(builder.and_(shifted, constant(0x7FFFFF, INTEGERS)), root_half)
    m = builder.bitcast(mantissa, FLOATS)
    t = builder.fdiv(builder.fsub(m, constant(1.0)), builder.fadd(m, constant(1.0)))
    square = builder.fmul(t, t)
    series = constant(2 / 9)
    for odd in (7, 5, 3, 1):
        series = multiply_add(builder, series, square, constant(2 / odd))
    return multiply_add(builder, builder.sitofp(exponent, FLOATS), constant(math.log(2)), builder.fmul(series, t))


def _overload(symbol: Callable[..., Any], emitted: str) -> None:
    @instruction(vector, vector, vector)
    def apply(builder: Any, a: Any, b: Any) -> Any:
        return getattr(builder, emitted)(a, b)

    @overload(symbol)
    def typed(a: Any, b: Any) -> Any:
        def implementation(a: Any, b: Any) -> Any:
            return apply(a, b)

        return implementation if isinstance(a, Vector) and isinstance(b, Vector) else None


for _symbol, _emitted in (
    (operator.add, "fadd"),
    (operator.sub, "fsub"),
    (operator.mul, "fmul"),
    (operator.truediv, "fdiv"),
):
    _overload(_symbol, _emitted)
