"""Every instruction of the engine against torch, also at widths that are not multiples of the vector width."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lamina.engine import machine
from lamina.engine.compilation import entry_points
from lamina.engine.machine import COUNT, OWN, PLACE, POSITION, SOURCE, START, TOKEN
from lamina.engine.products import ADD, RELU, STORE
from lamina.engine.program import Program, Weight, whole_vectors
from lamina.engine.search import SOURCE_TOKEN, WRITTEN
from lamina.engine.workspace import Workspace, allocate
from lamina.model.layers.positions import Positions

WIDTHS = [1, 5, 16, 37, 300]
ROWS = 7


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


class Bench:
    """Runs a program of a few instructions over rows."""

    def __init__(self, int8: bool = False) -> None:
        self.program = Program(int8)
        self.program.begin_decoder()
        self.inputs: dict[int, Tensor] = {}

    def holding(self, values: Tensor, kind: int = 0) -> int:
        """A register with these rows."""
        register = self.program.register(values.shape[1], kind)
        self.inputs[register] = values
        return register

    def run(
        self, *wanted: int, rows: int = ROWS, prepare: Callable[[Workspace], None] = lambda space: None
    ) -> list[Tensor]:
        weights = allocate(self.program.size)
        np.concatenate([*self.program.pieces, np.zeros(0, np.float32)], out=weights)
        code = np.zeros((len(self.program.decoder), machine.FIELDS), np.int64)
        for number, fields in enumerate(self.program.decoder):
            for place, field in enumerate(fields):
                code[number, place] = weights.ctypes.data + 4 * field.offset if isinstance(field, Weight) else field
        space = Workspace(self.program, weights, {"decoder": code})
        space.fit(rows, 32, 64, 64, 64, 256)
        space.numbers[:] = np.arange(len(space.numbers))
        for register, values in self.inputs.items():
            space.view(register, len(values))[:, : values.shape[1]] = values.numpy()
        prepare(space)
        entry_points().execute(code, space.registers, rows, space.rows())
        return [torch.from_numpy(space.view(register, rows).copy()) for register in wanted]


def assert_row_padding_is_zero(found: Tensor, width: int) -> None:
    assert not found[:, width:].any()


@pytest.mark.parametrize("width", WIDTHS)
def test_norm(width: int) -> None:
    bench, x, norm = Bench(), draw(ROWS, width) * 3 + 2, nn.LayerNorm(width)
    norm.weight.data, norm.bias.data = draw(width, seed=1), draw(width, seed=2)
    out = bench.program.register(width)
    bench.program.norm(out, bench.holding(x), norm)
    (found,) = bench.run(out)
    torch.testing.assert_close(found[:, :width], norm(x).detach(), rtol=1e-4, atol=1e-5)
    assert_row_padding_is_zero(found, width)


@pytest.mark.parametrize("rows", [1, 2, 5, 6, 7, 12, 13, 30])
@pytest.mark.parametrize(("inputs", "outputs"), [(5, 3), (16, 40), (37, 33), (600, 17)])
def test_product(rows: int, inputs: int, outputs: int) -> None:
    bench, x = Bench(), draw(rows, inputs)
    weight, bias = draw(outputs, inputs, seed=1), draw(outputs, seed=2)
    before = draw(rows, outputs, seed=3)
    source = bench.holding(x)
    plain, added, cut = bench.program.register(outputs), bench.holding(before), bench.program.register(outputs)
    for register, mode in ((plain, STORE), (added, ADD), (cut, RELU)):
        bench.program.product(register, source, weight, bias, mode)
    found = bench.run(plain, added, cut, rows=rows)
    expected = F.linear(x, weight, bias)
    for ours, theirs in zip(found, (expected, before + expected, expected.relu()), strict=True):
        torch.testing.assert_close(ours[:, :outputs], theirs, rtol=1e-4, atol=1e-4)
        assert_row_padding_is_zero(ours, outputs)


@pytest.mark.parametrize("rows", [1, 5, 7, 13])
@pytest.mark.parametrize(("inputs", "outputs"), [(5, 3), (16, 40), (300, 33)])
def test_product_in_8_bits_is_exact_in_integers(rows: int, inputs: int, outputs: int) -> None:
    bench, x = Bench(int8=True), draw(rows, inputs)
    weight, bias = draw(outputs, inputs, seed=1), draw(outputs, seed=2)
    out, cut = bench.program.register(outputs), bench.program.register(outputs)
    source = bench.holding(x)
    bench.program.product(out, source, weight, bias)
    bench.program.product(cut, source, weight, bias, RELU)
    found = bench.run(out, cut, rows=rows)
    scale, column = x.abs().amax(dim=1, keepdim=True) / 127, weight.abs().amax(dim=1) / 127
    whole = (x / scale + 0.5).floor() @ (weight / column[:, None]).round().T
    expected = whole * scale * column + bias
    torch.testing.assert_close(found[0][:, :outputs], expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(found[1][:, :outputs], expected.relu(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("int8", [False, True])
def test_nan_propagates_through_relu(int8: bool) -> None:
    bench, x = Bench(int8), draw(ROWS, 20)
    x[2, 3] = math.nan
    out = bench.program.register(24)
    bench.program.product(out, bench.holding(x), draw(24, 20, seed=1), None, RELU)
    (found,) = bench.run(out)
    assert found[2, :24].isnan().all()
    assert not found[[0, 1, 3, 4, 5, 6]].isnan().any()


@pytest.mark.parametrize("width", WIDTHS)
def test_mix(width: int) -> None:
    bench, x, before, weights = Bench(), draw(ROWS, width), draw(ROWS, width, seed=1), draw(width, seed=2)
    source, new, old = bench.holding(x), bench.program.register(width), bench.holding(before)
    bench.program.mix(new, source, weights.numpy(), width)
    bench.program.mix(old, source, 0.25, width, accumulate=True)
    found = bench.run(new, old)
    torch.testing.assert_close(found[0][:, :width], weights * x)
    torch.testing.assert_close(found[1][:, :width], before + 0.25 * x)


@pytest.mark.parametrize("count", [1, 3, 4, 9, 31])
@pytest.mark.parametrize(("heads", "size"), [(1, 16), (2, 32), (4, 16)])
def test_attend(count: int, heads: int, size: int) -> None:
    """Each row attends to its own list of keys and values, here the same in another order."""
    bench, width = Bench(), heads * size
    queries, stored = draw(ROWS, width), draw(32, 2 * width, seed=1)
    store, out = bench.holding(stored, SOURCE_TOKEN), bench.program.register(width)
    scale = bench.program.scalar(size**-0.5)
    fields = (store, 0, 4 * width, SOURCE, heads, 0, 4 * size, scale)
    bench.program.emit(machine.ATTEND, out, bench.holding(queries), *fields)
    orders = [np.random.default_rng(row).permutation(32)[:count] for row in range(ROWS)]

    def prepare(space: Workspace) -> None:
        for row, order in enumerate(orders):
            space.table[START + SOURCE, row], space.table[COUNT + SOURCE, row] = 32 * row, count
            space.numbers[32 * row : 32 * row + count] = order

    (found,) = bench.run(out, prepare=prepare)
    for row, order in enumerate(orders):
        keys, values = stored[torch.from_numpy(order)].view(count, 2, heads, size).permute(1, 2, 0, 3)
        query = queries[row].view(heads, 1, size)
        expected = F.scaled_dot_product_attention(query, keys, values).flatten()
        torch.testing.assert_close(found[row, :width], expected, rtol=1e-4, atol=1e-5)


def test_keep() -> None:
    bench, x = Bench(), draw(ROWS, 64)
    cache = bench.holding(torch.zeros(32, 32), WRITTEN)
    bench.program.emit(machine.KEEP, cache, bench.holding(x), 4 * 32, 4 * 32)
    places = [9, 3, 4, 0, 30, 11, 5]

    def prepare(space: Workspace) -> None:
        space.table[PLACE, :ROWS] = places

    (found,) = bench.run(cache, prepare=prepare)
    torch.testing.assert_close(found[[3, 4, 5], :32], x[[1, 2, 6], 32:])


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("positions", [False, True])
def test_embed(width: int, positions: bool) -> None:
    bench, table, module = Bench(), draw(50, width), Positions(width, 2)
    out = bench.program.register(width)
    rows = np.zeros((50, whole_vectors(width) // 4), np.float32)
    rows[:, :width] = table.numpy()
    register = bench.program.position_register(width, module) if positions else -1
    fields = (bench.program.put(rows), whole_vectors(width), bench.program.scalar(3.0), register)
    bench.program.emit(machine.EMBED, out, 0, *fields)
    tokens, places = [4, 49, 0, 7, 7, 1, 30], [0, 1, 2, 9, 40, 3, 0]

    def prepare(space: Workspace) -> None:
        space.table[TOKEN, :ROWS], space.table[POSITION, :ROWS] = tokens, places

    (found,) = bench.run(out, prepare=prepare)
    expected = 3 * table[tokens]
    if positions:
        expected = expected + module.between(0, 64, torch.device("cpu"))[places]
    torch.testing.assert_close(found[:, :width], expected)
    assert_row_padding_is_zero(found, width)


@pytest.mark.parametrize("width", WIDTHS)
def test_running_mean(width: int) -> None:
    """Three positions of two rows, in sequence as in whole prefixes."""
    bench, x = Bench(), draw(6, width)
    sums, out = bench.holding(torch.zeros(8, width), WRITTEN), bench.program.register(width)
    bench.program.emit(machine.RUNNING_MEAN, out, bench.holding(x), sums, whole_vectors(width))

    def prepare(space: Workspace) -> None:
        space.table[POSITION, :6] = [0, 1, 2, 0, 1, 2]
        space.table[PLACE, :6] = range(6)
        space.table[START + OWN, :6] = [0, 0, 0, 3, 3, 3]

    (found,) = bench.run(out, rows=6, prepare=prepare)
    means = x.view(2, 3, width).cumsum(dim=1) / torch.tensor([1.0, 2.0, 3.0])[:, None]
    torch.testing.assert_close(found[:, :width], means.view(6, width))


@pytest.mark.parametrize("width", WIDTHS)
def test_gates(width: int) -> None:
    bench, size = Bench(), whole_vectors(width)
    x, y, z = draw(ROWS, width) * 20, draw(ROWS, width, seed=1), draw(ROWS, width, seed=2)
    gate, one, other = bench.holding(x), bench.holding(y), bench.holding(z)
    names = [bench.program.register(width) for _ in range(3)]
    added = bench.holding(z)
    share = bench.holding(draw(ROWS, 1, seed=3).sigmoid())
    bench.program.emit(machine.SIGMOID, names[0], gate, 0, size)
    bench.program.emit(machine.GATE, names[1], gate, one, size, other)
    bench.program.emit(machine.BLEND, names[2], one, other, size, share)
    bench.program.emit(machine.GATED, added, one, gate, size, 1)
    sigmoid, gated, blended, more = (found[:, :width] for found in bench.run(*names, added))
    torch.testing.assert_close(sigmoid, x.sigmoid(), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(gated, torch.lerp(z, y, x.sigmoid()), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(blended, torch.lerp(z, y, draw(ROWS, 1, seed=3).sigmoid()), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(more, z + x.sigmoid() * y, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("width", [16, 64])
def test_gru(width: int) -> None:
    bench, cell = Bench(), nn.GRUCell(width, width)
    x, state = draw(ROWS, width), draw(ROWS, width, seed=1)
    inputs, states = (
        bench.holding(F.linear(x, cell.weight_ih, cell.bias_ih).detach()),
        bench.holding(F.linear(state, cell.weight_hh, cell.bias_hh).detach()),
    )
    out = bench.program.register(width)
    bench.program.emit(machine.GRU, out, inputs, states, 4 * width, bench.holding(state))
    (found,) = bench.run(out)
    torch.testing.assert_close(found[:, :width], cell(x, state).detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mean", [0, 1])
@pytest.mark.parametrize("from_id", [0, 5, 99])
def test_pool_and_spread(mean: int, from_id: int) -> None:
    """Two sources of three and four tokens."""
    bench, width, x = Bench(), 37, draw(ROWS, 37) - 1
    pooled, out = bench.program.register(width, SOURCE_TOKEN), bench.program.register(width)
    bench.program.emit(machine.POOL, pooled, bench.holding(x), from_id, whole_vectors(width), mean)
    bench.program.emit(machine.SPREAD, out, pooled, 0, whole_vectors(width))
    tokens = torch.tensor([7, 4, 2, 8, 9, 3, 2])

    def prepare(space: Workspace) -> None:
        space.table[TOKEN, :ROWS] = tokens
        for view in (OWN, SOURCE):
            space.table[START + view, :ROWS], space.table[COUNT + view, :ROWS] = [0] * 3 + [3] * 4, [3] * 3 + [4] * 4

    (found,) = bench.run(out, prepare=prepare)
    for rows in (slice(0, 3), slice(3, 7)):
        kept = (tokens[rows] >= from_id)[:, None]
        expected = (x[rows] * kept).sum(dim=0) / max(1, int(kept.sum())) if mean else (x[rows] * kept).amax(dim=0)
        torch.testing.assert_close(found[rows, :width], expected.expand(int(kept.numel()), width))


@pytest.mark.parametrize("width", [3, 32, 70, 1000])
def test_log_sum_exp_and_log_add(width: int) -> None:
    bench = Bench()
    x, y = draw(ROWS, width) * 5, draw(ROWS, width, seed=1) * 5
    one, other, total = bench.program.register(width), bench.program.register(width), bench.program.register(width)
    eye, zero = torch.eye(width), torch.zeros(width)
    for register, values in ((one, x), (other, y)):
        bench.program.product(register, bench.holding(values), eye, zero, hide_padding=True)
    normalisers = [bench.program.register(1) for _ in range(2)]
    size = 4 * bench.program.widths[one]
    for number, (register, normaliser) in enumerate(zip((one, other), normalisers, strict=True)):
        bench.program.emit(machine.LOG_SUM_EXP, normaliser, register, 0, size)
        bench.program.emit(machine.LOG_ADD, total, register, normaliser, size, number)
    found = bench.run(*normalisers, total)
    torch.testing.assert_close(found[0][:, 0], x.logsumexp(dim=1), rtol=1e-5, atol=1e-5)
    expected = torch.logaddexp(x.log_softmax(dim=1), y.log_softmax(dim=1))
    torch.testing.assert_close(found[2][:, :width], expected, rtol=1e-5, atol=1e-5)


def test_every_instruction_is_tested_here() -> None:
    text = Path(__file__).read_text(encoding="utf-8")
    others = {"NORM": ".norm(", "PRODUCT": ".product(", "PRODUCT_INT8": "int8=True", "MIX": ".mix("}
    names = [name for name, value in vars(machine).items() if name.isupper() and isinstance(value, int)]
    instructions = [name for name in names if name not in ("FIELDS", "OWN", "SOURCE", "BOTH", "BYTES")]
    instructions = [name for name in instructions if name not in ("TOKEN", "POSITION", "PLACE", "START", "COUNT")]
    assert len(instructions) == 19
    instructions = [name for name in instructions if name not in ("POINT", "LAST")]  # in whole models: test_backends.py
    assert [name for name in instructions if others.get(name, f"machine.{name},") not in text] == []
