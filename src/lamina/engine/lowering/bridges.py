"""Lowering of bridges, which project keys and values for a decoder layer as soon as the encoder states exist."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from lamina.engine import machine
from lamina.engine.lowering.parts import Parts, columns, expect
from lamina.engine.products import ADD, STORE
from lamina.engine.program import numbers, whole_vectors
from lamina.model.bridges.aggregation import Aggregate, AggregationBridge
from lamina.model.bridges.blocks import BlocksBridge
from lamina.model.bridges.collaborative import CollaborativeBridge
from lamina.model.bridges.fine_grained import FineGrainedBridge
from lamina.model.bridges.grown import GrownBridge
from lamina.model.bridges.layerwise import LayerwiseBridge
from lamina.model.bridges.top import TopBridge
from lamina.model.bridges.transparent import TransparentBridge

StoreMemory = Callable[[int, int, int], None]  # decoder layer, stream, register of the memory


class BridgeLowering:
    """Lowers a bridge by callbacks of the encoder; `store_memory` projects and stores a memory."""

    def __init__(self, parts: Parts, bridge: Any, decoder_layers: int, store_memory: StoreMemory) -> None:
        self.parts, self.bridge, self.store_memory = parts, bridge, store_memory
        self.decoder_layers = decoder_layers
        self.prepare()

    def prepare(self) -> None:
        """Allocate registers."""

    def on_embedding(self, embedded: int, surface: int | None) -> None:
        """Receive the encoder's input, and the same without positions if it is read."""

    def on_layer(self, index: int, register: int) -> None:
        """Receive the raw output of an encoder layer."""

    def on_context(self, index: int, register: int) -> None:
        """Receive a context of `msc`."""

    def on_bottom(self, register: int, released: int) -> None:
        """Receive H1 and H1 + LN_e(x) of `grown`."""

    def finish(self, top: int) -> None:
        """Receive the encoder's final states."""

    def store_normed(self, layer: int, stream: int, register: int, norm: nn.Module) -> None:
        """Normalise a memory and store it."""
        self.store_memory(layer, stream, self.parts.norm_into(self.parts.normed, register, norm))


class TopLowering(BridgeLowering):
    """Every decoder layer reads the final states."""

    def finish(self, top: int) -> None:
        for layer in range(self.decoder_layers):
            self.store_memory(layer, 0, top)


class GrownLowering(BridgeLowering):
    """Trained decoder layers read the bottom, the new ones the final states."""

    def on_bottom(self, register: int, released: int) -> None:
        for layer in range(self.bridge.trained):
            self.store_memory(layer, 0, released if self.bridge.released else register)

    def finish(self, top: int) -> None:
        for layer in range(self.bridge.trained, self.decoder_layers):
            self.store_memory(layer, 0, top)


class LayerwiseLowering(BridgeLowering):
    """Decoder layer j reads encoder layer j."""

    def on_layer(self, index: int, register: int) -> None:
        if not (self.bridge.last_is_top and index == self.decoder_layers - 1):
            self.store_normed(index, 0, register, self.bridge.norms[index])

    def finish(self, top: int) -> None:
        if self.bridge.last_is_top:
            self.store_normed(self.decoder_layers - 1, 0, top, self.bridge.norms[-1])


class BlocksLowering(BridgeLowering):
    """Decoder layer n reads the output of encoder block n."""

    def on_layer(self, index: int, register: int) -> None:
        if index in self.bridge.ends:
            block = self.bridge.ends.index(index)
            self.store_normed(block, 0, register, self.bridge.norms[block])


class CollaborativeLowering(BridgeLowering):
    """Decoder layer n reads block n and context n."""

    def on_layer(self, index: int, register: int) -> None:
        if index in self.bridge.ends:
            block = self.bridge.ends.index(index)
            self.store_normed(block, 0, register, self.bridge.block_norms[block])

    def on_context(self, index: int, register: int) -> None:
        self.store_normed(index, 1, register, self.bridge.context_norms[index])


class TransparentLowering(BridgeLowering):
    """Decoder layer j reads its own mix of all encoder layers, accumulated layer by layer."""

    def prepare(self) -> None:
        weights = numbers(self.bridge.weights())
        width = self.parts.d_model
        self.weights = weights.reshape(*weights.shape[:2], -1)  # (J, columns, 1 or D)
        self.mixes = [self.parts.program.register(width) for _ in range(self.decoder_layers)]
        self.mixed = 0  # number of columns

    def on_embedding(self, embedded: int, surface: int | None) -> None:
        if self.bridge.embedding is not None:
            chosen = embedded if self.bridge.embedding == "input" else surface
            assert chosen is not None
            self.mix(self.parts.norm_into(self.parts.normed, chosen, self.bridge.embedding_norm))

    def on_layer(self, index: int, register: int) -> None:
        self.mix(register)

    def mix(self, register: int) -> None:
        """Add the next column to every decoder layer's mix."""
        for layer, to in enumerate(self.mixes):
            weight = self.weights[layer, self.mixed]
            self.parts.program.mix(to, register, weight, self.parts.d_model, accumulate=self.mixed > 0)
        self.mixed += 1

    def finish(self, top: int) -> None:
        for layer, register in enumerate(self.mixes):
            self.store_normed(layer, 0, register, self.bridge.norm)


class AggregationLowering(BridgeLowering):
    """Every decoder layer reads the result of a chain of merges."""

    def prepare(self) -> None:
        program, width = self.parts.program, self.parts.d_model
        self.merged, self.gate, self.total = (program.register(width) for _ in range(3))
        self.pending: list[int] = []
        self.kept = [program.register(width) for _ in range(self.bridge.stride)]
        self.merges = list(self.bridge.merges)

    def on_layer(self, index: int, register: int) -> None:
        program, width, stride = self.parts.program, self.parts.d_model, self.bridge.stride
        if stride == 1 and index == 0:
            program.copy(self.merged, register, width)
            return
        program.copy(self.kept[len(self.pending)], register, width)
        self.pending.append(self.kept[len(self.pending)])
        if len(self.pending) == stride:
            previous = [self.merged] if index >= stride else []
            self.merge(expect(self.merges.pop(0), Aggregate), [*self.pending, *previous])
            self.pending.clear()

    def merge(self, aggregate: Aggregate, inputs: list[int]) -> None:
        """AGG = LN(W2·σ(W1·[x1;…;xk]) + Σ xi)."""
        program, width = self.parts.program, self.parts.d_model
        hidden = expect(aggregate.hidden, nn.Linear)
        for number, register in enumerate(inputs):
            bias, mode = (hidden.bias, STORE) if number == 0 else (None, ADD)
            program.product(self.gate, register, columns(hidden.weight, number, width), bias, mode)
            program.mix(self.total, register, 1.0, width, accumulate=number > 0)
        program.emit(machine.SIGMOID, self.gate, self.gate, 0, whole_vectors(width))
        self.parts.linear(self.total, self.gate, aggregate.out, ADD)
        program.norm(self.merged, self.total, expect(aggregate.norm, nn.LayerNorm))

    def finish(self, top: int) -> None:
        for layer in range(self.decoder_layers):
            self.store_memory(layer, 0, self.merged)


BRIDGES: dict[type[nn.Module], type[BridgeLowering]] = {
    TopBridge: TopLowering,
    GrownBridge: GrownLowering,
    LayerwiseBridge: LayerwiseLowering,
    BlocksBridge: BlocksLowering,
    CollaborativeBridge: CollaborativeLowering,
    TransparentBridge: TransparentLowering,
    FineGrainedBridge: TransparentLowering,
    AggregationBridge: AggregationLowering,
}
