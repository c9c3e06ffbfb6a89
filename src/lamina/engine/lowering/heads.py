"""Lowering of heads, which compute scores over the vocabulary and their normaliser."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from lamina.engine import machine
from lamina.engine.lowering.parts import Parts, columns, expect
from lamina.engine.machine import SOURCE
from lamina.engine.products import ADD, PANEL, STORE, padded
from lamina.engine.program import Distribution, whole_vectors
from lamina.engine.search import SOURCE_TOKEN
from lamina.engine.vectors import LANES
from lamina.model.heads.pointer import PointerHead
from lamina.model.heads.softmax import SoftmaxHead
from lamina.model.heads.surface import SurfaceHead
from lamina.model.heads.surface_readers import AttentionReader, PooledReader


def lower_softmax(parts: Parts, features: int, weight_VD: Tensor) -> Distribution:
    """Lower a softmax: scores E·u, and the normaliser log Σ e^score."""
    program = parts.program
    scores, normaliser = program.register(len(weight_VD)), program.register(1)
    program.score_registers.add(scores)
    program.note_vocabulary(weight_VD)
    program.product(scores, features, weight_VD, None, hide_padding=True)
    program.emit(machine.LOG_SUM_EXP, normaliser, scores, 0, 4 * program.widths[scores])
    return Distribution(scores, normaliser)


class HeadLowering:
    """The softmax head, which reads only the decoder's features; the base of other heads."""

    reads_surface = False

    def __init__(self, parts: Parts, head: Any) -> None:
        self.parts, self.head = parts, head

    def project_source(self, top: int, surface: int | None) -> None:
        """Project what the head needs of a source."""

    def on_input(self, register: int) -> None:
        """Receive the decoder's input."""

    def on_layer(self, index: int, register: int) -> None:
        """Receive the raw output of a decoder layer."""

    def lower(self, features: int) -> Distribution:
        """Lower the distribution of every row."""
        return lower_softmax(self.parts, features, self.head.weight_VD)


class SurfaceLowering(HeadLowering):
    """SurfaceFusion in all modes."""

    reads_surface = True

    def __init__(self, parts: Parts, head: SurfaceHead) -> None:
        super().__init__(parts, head)
        program, width = parts.program, parts.d_model
        self.query, self.target, self.source = (program.register(width) for _ in range(3))
        if type(head.reader) is AttentionReader:
            section = parts.layout(head.reader.attention).section
            self.memory = program.register(2 * section, SOURCE_TOKEN)
        else:
            expect(head.reader, PooledReader)
            self.memory = program.register(width, SOURCE_TOKEN)

    def project_source(self, top: int, surface: int | None) -> None:
        assert surface is not None
        reader = self.head.reader
        if type(reader) is AttentionReader:
            self.parts.project(self.memory, top, reader.attention, 1, 2)
            self.parts.project(self.memory, surface, reader.attention, 2, 3, offset=1)
        else:
            size, mean = whole_vectors(self.parts.d_model), int(reader.pool == "mean")
            self.parts.program.emit(machine.POOL, self.memory, surface, reader.from_id or 0, size, mean)

    def on_layer(self, index: int, register: int) -> None:
        if index == self.head.layer:
            self.parts.program.copy(self.query, register, self.parts.d_model)

    def lower(self, features: int) -> Distribution:
        parts, head, width = self.parts, self.head, self.parts.d_model
        program = parts.program
        program.copy(self.target, features, width)
        if type(head.reader) is AttentionReader:
            parts.read(self.source, self.query, head.reader.attention, self.memory, SOURCE, STORE)
        else:
            program.emit(machine.SPREAD, self.source, self.memory, 0, whole_vectors(width))
        target, source = self._side(self.target, head.target_linear), self._side(self.source, head.source_linear)
        if head.soft:
            program.mix(self.query, target, 1.0, width)
            program.mix(self.query, source, head.tau, width, accumulate=True)
            return lower_softmax(parts, self.query, head.weight_VD)
        gate = self._gate(target, source)
        if not head.two_softmaxes:
            program.emit(machine.BLEND, self.query, target, source, whole_vectors(width), gate)
            return lower_softmax(parts, self.query, head.weight_VD)
        one, other = (lower_softmax(parts, side, head.weight_VD) for side in (target, source))
        size = 4 * program.widths[one.scores]
        program.emit(machine.BLEND, one.scores, one.scores, other.scores, size, gate)
        program.emit(machine.BLEND, one.normaliser, one.normaliser, other.normaliser, whole_vectors(1), gate)
        return one

    def _side(self, register: int, linear: nn.Module) -> int:
        """Apply the shared feed-forward network and the side's linear projection, if configured."""
        parts = self.parts
        if self.head.feed_forward is not None:
            parts.feed_forward(register, register, self.head.feed_forward)
        if type(linear) is nn.Identity:
            return register
        mapped = parts.program.register(parts.d_model)
        parts.linear(mapped, register, linear)
        return mapped

    def _gate(self, target: int, source: int) -> int:
        """λ: a constant, or σ(w·[u;r])."""
        program, width = self.parts.program, self.parts.d_model
        if self.head.constant_gate is not None:
            return program.fixed_register(np.array([self.head.constant_gate], np.float32))
        gate, weight = program.register(1), self.head.gate.weight
        program.product(gate, target, columns(weight, 0, width), None)
        program.product(gate, source, columns(weight, 1, width), None, ADD)
        program.emit(machine.SIGMOID, gate, gate, 0, whole_vectors(1))
        return gate


class PointerLowering(HeadLowering):
    """Pointer-generator. The gate reads w·c = Σ α_i·(w·H_i), so w·H_i is stored for every source token."""

    def __init__(self, parts: Parts, head: PointerHead) -> None:
        super().__init__(parts, head)
        program = parts.program
        self.section = padded(parts.d_model, PANEL)
        self.memory = program.register(self.section + PANEL, SOURCE_TOKEN)
        self.tokens, self.gate = program.register(1, SOURCE_TOKEN), program.register(1)

    def project_source(self, top: int, surface: int | None) -> None:
        program, head, width = self.parts.program, self.head, self.parts.d_model
        program.product(self.memory, top, expect(head.key, nn.Linear).weight, None)
        gate = columns(expect(head.gate, nn.Linear).weight, 1, width)
        program.product(self.memory, top, gate, None, offset=self.section)

        def token_ids() -> tuple[NDArray[np.float32]]:
            table = np.zeros((len(head.weight_VD), LANES), np.float32)
            table[:, 0] = np.arange(len(table))
            return (table,)

        (table,) = program.once(("token numbers", len(head.weight_VD)), token_ids)
        program.emit(machine.EMBED, self.tokens, 0, table, whole_vectors(1), program.scalar(1.0), -1)

    def on_input(self, register: int) -> None:
        if self.head.reads_input:
            weight = columns(self.head.gate.weight, 2, self.parts.d_model)
            self.parts.program.product(self.gate, register, weight, None)

    def lower(self, features: int) -> Distribution:
        program, head, width = self.parts.program, self.head, self.parts.d_model
        weight, mode = columns(head.gate.weight, 0, width), ADD if head.reads_input else STORE
        program.product(self.gate, features, weight, head.gate.bias, mode)
        query = program.register(width)
        self.parts.linear(query, features, head.query)
        scores, normaliser = lower_softmax(self.parts, features, head.weight_VD)
        scale, size = program.scalar(width**-0.5), whole_vectors(width)
        fields = (query, self.memory, self.tokens, normaliser, self.gate, size, 4 * self.section, scale)
        program.emit(machine.POINT, scores, *fields)
        return Distribution(scores, normaliser)


HEADS: dict[type[nn.Module], type[HeadLowering]] = {
    SoftmaxHead: HeadLowering,
    SurfaceHead: SurfaceLowering,
    PointerHead: PointerLowering,
}
