"""The virtual machine that runs a model: instructions over registers, whose rows are vectors of floats.

A register is an address and the stride of its rows in bytes. An instruction is a row of `FIELDS` integers: the opcode,
the registers it writes and reads, and addresses of packed weights. Every instruction processes all rows before the next
one starts. Widths are padded with zeros to whole vectors, so no loop has a remainder.

Below, n is field n of an instruction and [n] the register that it names; the mathematics is in `operations`.
"""

from __future__ import annotations

from typing import NamedTuple

from lamina.engine.int8 import product_int8
from lamina.engine.operations import (
    Floats,
    Int32,
    Int64,
    attend,
    copy,
    embed,
    f32,
    gru,
    log_add,
    log_sum_exp,
    mix,
    norm,
    point,
    pool,
    running_mean,
    sigmoid_of,
)
from lamina.engine.products import compiled, product
from lamina.engine.vectors import BYTES, fma, load, load_float, splat, store, store_float

(
    EMBED,
    NORM,
    PRODUCT,
    PRODUCT_INT8,
    MIX,
    KEEP,
    ATTEND,
    RUNNING_MEAN,
    SIGMOID,
    GATE,
    GATED,
    BLEND,
    GRU,
    POOL,
    SPREAD,
    LOG_SUM_EXP,
    LOG_ADD,
    POINT,
    LAST,
) = range(19)
FIELDS = 14
OWN, SOURCE, BOTH = range(3)  # views, i.e. what a row attends to: its own sequence, its source, or both

TOKEN, POSITION, PLACE, START, COUNT = 0, 1, 2, 3, 6  # rows of `Rows.table`; the last two exist for each view


class Rows(NamedTuple):
    """The inputs of an execution, row by row."""

    table: Int64  # per row: token, position, cache row to write (`PLACE`), and for each view the start (`START`) and
    # length (`COUNT`) of its list in `numbers`
    numbers: Int32  # lists of cache rows to attend to
    scores: Floats  # scratch for attention scores: (heads, keys)
    records: Int64  # for each instruction the address to which it records its weights, or 0
    record_bytes: int  # stride of the rows of a record


@compiled
def row(registers: Int64, number: int, r: int) -> int:
    """The address of a register's row."""
    return registers[number, 0] + r * registers[number, 1]


@compiled
def record_at(i: int, r: int, rows: Rows) -> int:
    """The address to which instruction i records its weights for a row, or 0."""
    return rows.records[i] + r * rows.record_bytes if rows.records[i] else 0


@compiled
def run_product(it: Int64, registers: Int64, count: int) -> None:
    """[1] at offset 8 = [2]·Wᵀ + b: packed 3, bias 4, depth 5, panels 6, mode 7."""
    x, y = registers[it[2]], registers[it[1]]
    product(x[0], x[1], count, it[3], it[5], it[6], y[0] + it[8], y[1], it[4], it[7])


@compiled
def run_product_int8(it: Int64, registers: Int64, count: int) -> None:
    """`run_product` in 8 bits: column scales 9, starts of sums 10; scratch: quantised inputs [11], scales [12]."""
    x, y = registers[it[2]], registers[it[1]]
    quantised, scales = registers[it[11], 0], registers[it[12], 0]
    product_int8(
        x[0], x[1], count, it[3], it[5], it[6], y[0] + it[8], y[1], it[4], it[9], it[10], it[7], quantised, scales
    )


@compiled
def run_norm(it: Int64, registers: Int64, count: int) -> None:
    """[1] = norm([2]): gain 3, shift 4, width 5, address of ε 6."""
    for r in range(count):
        norm(row(registers, it[1], r), row(registers, it[2], r), it[5], it[3], it[4], load_float(it[6]))


@compiled
def run_attend(it: Int64, i: int, registers: Int64, count: int, rows: Rows) -> None:
    """[1] = attention from [2] at offset 8 to [3]: keys at 4, values at 5, view 6, heads 7, size 9, scale at 10."""
    view, heads, size, scale = it[6], it[7], it[9], load_float(it[10])
    store, step = registers[it[3], 0], registers[it[3], 1]
    for r in range(count):
        attend(
            row(registers, it[1], r),
            row(registers, it[2], r) + it[8],
            store + it[4],
            store + it[5],
            step,
            rows.numbers,
            rows.table[START + view, r],
            rows.table[COUNT + view, r],
            heads,
            size,
            scale,
            rows.scores,
            record_at(i, r, rows),
        )


@compiled
def run_keep(it: Int64, registers: Int64, count: int, rows: Rows) -> None:
    """Cache row `PLACE` of [1] = [2] at offset 3, bytes 4."""
    for r in range(count):
        copy(row(registers, it[1], rows.table[PLACE, r]), row(registers, it[2], r) + it[3], it[4])


@compiled
def run_embed(it: Int64, registers: Int64, count: int, rows: Rows) -> None:
    """[1] = scale·E[token] + position: table 3, bytes of its rows 4, scale at 5, register of positions 6 or −1."""
    for r in range(count):
        position = row(registers, it[6], rows.table[POSITION, r]) if it[6] >= 0 else 0
        embed(row(registers, it[1], r), it[3], it[4], rows.table[TOKEN, r], load_float(it[5]), position)


@compiled
def run_mix(it: Int64, registers: Int64, count: int) -> None:
    """[1] = (5: [1] +) w ⊙ [2]: weights 3, bytes 4."""
    for r in range(count):
        mix(row(registers, it[1], r), row(registers, it[2], r), it[4], it[3], it[5])


@compiled
def run_running_mean(it: Int64, registers: Int64, count: int, rows: Rows) -> None:
    """[1] = the mean of [2] over all positions so far; [3] caches the sums, bytes 4."""
    for r in range(count):
        position = rows.table[POSITION, r]
        before = rows.numbers[rows.table[START + OWN, r] + position - 1] if position > 0 else 0
        sums, sums_before = row(registers, it[3], rows.table[PLACE, r]), row(registers, it[3], before)
        running_mean(row(registers, it[1], r), row(registers, it[2], r), it[4], sums, sums_before, position)


@compiled
def run_sigmoid(it: Int64, registers: Int64, count: int) -> None:
    """[1] = σ([2]), bytes 4."""
    for r in range(count):
        y, x = row(registers, it[1], r), row(registers, it[2], r)
        for k in range(0, it[4], BYTES):
            store(y + k, sigmoid_of(load(x + k)))


@compiled
def run_gate(it: Int64, i: int, registers: Int64, count: int, rows: Rows) -> None:
    """[1] = [5] + σ([2]) ⊙ ([3] − [5]), bytes 4."""
    for r in range(count):
        y, x, record = row(registers, it[1], r), row(registers, it[2], r), record_at(i, r, rows)
        one, other = row(registers, it[3], r), row(registers, it[5], r)
        for k in range(0, it[4], BYTES):
            gate, low = sigmoid_of(load(x + k)), load(other + k)
            store(y + k, fma(gate, load(one + k) - low, low))
            if record:
                store(record + k, gate)


@compiled
def run_gated(it: Int64, registers: Int64, count: int) -> None:
    """[1] = (5: [1] +) σ([3]) ⊙ [2], bytes 4."""
    for r in range(count):
        y, x, gate = row(registers, it[1], r), row(registers, it[2], r), row(registers, it[3], r)
        for k in range(0, it[4], BYTES):
            before = load(y + k) if it[5] else splat(f32(0))
            store(y + k, fma(sigmoid_of(load(gate + k)), load(x + k), before))


@compiled
def run_blend(it: Int64, registers: Int64, count: int) -> None:
    """[1] = [3] + λ·([2] − [3]), λ the first float of [5], bytes 4."""
    for r in range(count):
        y, x, other = row(registers, it[1], r), row(registers, it[2], r), row(registers, it[3], r)
        factor = splat(load_float(row(registers, it[5], r)))
        for k in range(0, it[4], BYTES):
            low = load(other + k)
            store(y + k, fma(factor, load(x + k) - low, low))


@compiled
def run_gru(it: Int64, registers: Int64, count: int) -> None:
    """[1] = GRU: inputs [2], states [3], previous state [5], bytes of a part 4."""
    for r in range(count):
        before = row(registers, it[5], r)
        gru(row(registers, it[1], r), row(registers, it[2], r), row(registers, it[3], r), before, it[4])


@compiled
def run_pool(it: Int64, registers: Int64, count: int, rows: Rows) -> None:
    """The first row of each source in [1] = [2] pooled: bytes 4, from token 3, mean (1) or maximum (0) 5."""
    for r in range(count):
        if r == rows.table[START + OWN, r]:
            length, x, step = rows.table[COUNT + OWN, r], registers[it[2], 0], registers[it[2], 1]
            pool(row(registers, it[1], r), x, step, it[4], rows.table[TOKEN], r, length, it[3], it[5])


@compiled
def run_spread(it: Int64, registers: Int64, count: int, rows: Rows) -> None:
    """[1] = the first row of its source in [2], bytes 4."""
    for r in range(count):
        copy(row(registers, it[1], r), row(registers, it[2], rows.table[START + SOURCE, r]), it[4])


@compiled
def run_log_sum_exp(it: Int64, registers: Int64, count: int) -> None:
    """The first float of [1] = log Σ e^[2], bytes 4."""
    for r in range(count):
        store_float(row(registers, it[1], r), log_sum_exp(row(registers, it[2], r), it[4]))


@compiled
def run_log_add(it: Int64, registers: Int64, count: int) -> None:
    """[1] = log((5: e^[1] +) e^([2] − n)), n the first float of [3], bytes 4."""
    for r in range(count):
        normaliser = load_float(row(registers, it[3], r))
        log_add(row(registers, it[1], r), row(registers, it[2], r), it[4], normaliser, it[5])


@compiled
def run_point(it: Int64, registers: Int64, count: int, rows: Rows) -> None:
    """Add copy mass to the scores [1] and update their normaliser, the first float of [5]: query [2], keys in [3] with
    g at offset 8, tokens [4], gate [6], bytes 7, scale at 9.
    """
    store, step = registers[it[3], 0], registers[it[3], 1]
    tokens, token_step = registers[it[4], 0], registers[it[4], 1]
    for r in range(count):
        normaliser = row(registers, it[5], r)
        mixed = point(
            row(registers, it[1], r),
            row(registers, it[2], r),
            store,
            step,
            it[7],
            store + it[8],
            tokens,
            token_step,
            rows.numbers,
            rows.table[START + SOURCE, r],
            rows.table[COUNT + SOURCE, r],
            load_float(it[9]),
            load_float(row(registers, it[6], r)),
            load_float(normaliser),
            rows.scores,
        )
        store_float(normaliser, mixed)


@compiled
def run_last(it: Int64, registers: Int64, count: int, rows: Rows) -> None:
    """[1] = [2] at the last token of the row's sentence + the sentence's position vector in [3], bytes 4 (encoders)."""
    for r in range(count):
        last = rows.table[START + SOURCE, r] + rows.table[COUNT + SOURCE, r] - 1
        y, x, position = (
            row(registers, it[1], r),
            row(registers, it[2], last),
            row(registers, it[3], rows.table[PLACE, r]),
        )
        for k in range(0, it[4], BYTES):
            store(y + k, load(x + k) + load(position + k))


@compiled
def execute(program: Int64, registers: Int64, count: int, rows: Rows) -> None:
    """Run a program over `count` rows."""
    for i in range(len(program)):
        it = program[i]
        op = it[0]
        if op == PRODUCT:
            run_product(it, registers, count)
        elif op == PRODUCT_INT8:
            run_product_int8(it, registers, count)
        elif op == NORM:
            run_norm(it, registers, count)
        elif op == ATTEND:
            run_attend(it, i, registers, count, rows)
        elif op == KEEP:
            run_keep(it, registers, count, rows)
        elif op == EMBED:
            run_embed(it, registers, count, rows)
        elif op == MIX:
            run_mix(it, registers, count)
        elif op == RUNNING_MEAN:
            run_running_mean(it, registers, count, rows)
        elif op == SIGMOID:
            run_sigmoid(it, registers, count)
        elif op == GATE:
            run_gate(it, i, registers, count, rows)
        elif op == GATED:
            run_gated(it, registers, count)
        elif op == BLEND:
            run_blend(it, registers, count)
        elif op == GRU:
            run_gru(it, registers, count)
        elif op == POOL:
            run_pool(it, registers, count, rows)
        elif op == SPREAD:
            run_spread(it, registers, count, rows)
        elif op == LOG_SUM_EXP:
            run_log_sum_exp(it, registers, count)
        elif op == LOG_ADD:
            run_log_add(it, registers, count)
        elif op == POINT:
            run_point(it, registers, count, rows)
        elif op == LAST:
            run_last(it, registers, count, rows)
