"""Lowering of the decoder: one step of every row, for every target attention and wiring."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from lamina.engine import machine
from lamina.engine.lowering.encoders import fuse, run_stack
from lamina.engine.lowering.parts import Parts, choose, columns, expect
from lamina.engine.machine import BOTH, OWN, SOURCE
from lamina.engine.products import ADD, STORE
from lamina.engine.program import whole_vectors
from lamina.engine.search import SOURCE_TOKEN, WRITTEN
from lamina.model.decoder import CrossAttention, Decoder, DecoderLayer
from lamina.model.layers.target_attention import AverageAttention, MergedAttention, MixedAttention, SelfAttention


class DecoderLowering:
    """Lowers the decoder, and allocates the registers of every layer's memories."""

    def __init__(self, parts: Parts, decoder: Decoder) -> None:
        self.parts, self.decoder = parts, expect(decoder, Decoder)
        for layer in decoder.layers:
            expect(layer, DecoderLayer)
            choose(TARGET_ATTENTIONS, layer.target_attention)
        self.layers = list(decoder.layers)
        self.memories = [[self._memory(layer, reader) for reader in layer.readers] for layer in decoder.layers]

    def _memory(self, layer: DecoderLayer, reader: Any) -> int:
        kind = WRITTEN if type(layer.target_attention) is MixedAttention else SOURCE_TOKEN
        return self.parts.program.register(2 * self.parts.layout(reader).section, kind)

    @property
    def reads_both(self) -> bool:
        """Whether some layer attends to source and prefix in one softmax."""
        return any(type(layer.target_attention) is MixedAttention for layer in self.layers)

    def store_memory(self, layer: int, stream: int, register: int) -> None:
        """Project a memory to keys and values, once per source."""
        reader = self.layers[layer].readers[stream]
        self.parts.project(self.memories[layer][stream], register, reader, 1, 3)

    def lower(self, on_layer: Callable[[int, int], None]) -> int:
        """Lower all layers, passing each raw output to `on_layer`; return the register of the features."""

        def layer(index: int) -> None:
            self._layer(self.layers[index], self.memories[index])

        run_stack(self.parts, self.decoder.wiring, len(self.layers), layer, on_layer)
        return self.parts.norm_into(self.parts.normed, self.parts.x, self.decoder.final_norm)

    def _layer(self, layer: DecoderLayer, memories: list[int]) -> None:
        parts, target = self.parts, layer.target_attention
        choose(TARGET_ATTENTIONS, target)(parts, target, parts.pre_norm(layer.target_residual), memories)
        parts.post_norm(layer.target_residual)
        if target.memory_reader is None:
            cross = expect(layer.cross_attention, CrossAttention)
            lower_cross_attention(parts, cross, parts.pre_norm(layer.cross_residual), memories)
            parts.post_norm(layer.cross_residual)
        parts.feed_forward(parts.x, parts.pre_norm(layer.feed_forward_residual), layer.feed_forward)
        parts.post_norm(layer.feed_forward_residual)


def lower_cross_attention(parts: Parts, cross: CrossAttention, src: int, memories: list[int]) -> None:
    """`x` += attention to one stream, or the fusion of two."""
    streams = list(cross.streams)
    if len(streams) == 1:
        expect(cross.fusion, nn.Identity)
        parts.read(parts.x, src, streams[0], memories[0], SOURCE, ADD)
        return
    for register, stream, memory in zip((parts.one, parts.other), streams, memories, strict=True):
        parts.read(register, src, stream, memory, SOURCE, STORE)
    fuse(parts, cross.fusion)


def write_keys_and_values(parts: Parts, attention: Any, src: int, cache: int) -> int:
    """Project the newest position, write its key and value to the cache, and return the register of its query."""
    layout = parts.layout(attention)
    qkv, _ = parts.attention_registers(layout)
    parts.project(qkv, src, attention, 0, 3)
    parts.program.emit(machine.KEEP, cache, qkv, 4 * layout.section, 8 * layout.section)
    return qkv


def lower_self_attention(parts: Parts, target: SelfAttention, src: int, memories: list[int]) -> None:
    """`x` += attention to the row's prefix."""
    attention = target.attention
    cache = parts.program.register(2 * parts.layout(attention).section, WRITTEN)
    query = write_keys_and_values(parts, attention, src, cache)
    parts.attention_output(parts.x, parts.attend(query, cache, attention, OWN, 0), attention, ADD)


def lower_mixed_attention(parts: Parts, target: MixedAttention, src: int, memories: list[int]) -> None:
    """`x` += attention to the source and the row's prefix in one softmax; both are in one register."""
    attention, (store,) = target.attention, memories
    query = write_keys_and_values(parts, attention, src, store)
    parts.attention_output(parts.x, parts.attend(query, store, attention, BOTH, 0), attention, ADD)


def lower_average_attention(parts: Parts, target: AverageAttention, src: int, memories: list[int]) -> None:
    """[i;f] = σ(Wz·[y;ȳ] + b), x += i⊙y + f⊙ȳ."""
    program, width, gates = parts.program, parts.d_model, expect(target.gates, nn.Linear)
    sums, size = program.register(width, WRITTEN), whole_vectors(width)
    program.emit(machine.RUNNING_MEAN, parts.one, src, sums, size)
    for part, gated in enumerate((src, parts.one)):
        rows = slice(part * width, (part + 1) * width)
        weight, bias = gates.weight[rows], gates.bias[rows]
        program.product(parts.other, src, columns(weight, 0, width), bias)
        program.product(parts.other, parts.one, columns(weight, 1, width), None, ADD)
        program.emit(machine.GATED, parts.gated, gated, parts.other, size, part)
    program.add(parts.x, parts.gated, width)


def lower_merged_attention(parts: Parts, target: MergedAttention, src: int, memories: list[int]) -> None:
    """x += Wo·(attention to the memory + the running mean of values)."""
    program, attention, (memory,) = parts.program, target.attention, memories
    layout = parts.layout(attention)
    query, _ = parts.attention_registers(layout)
    values, mean = parts.wide_registers(layout.section)
    sums = program.register(layout.section, WRITTEN)
    parts.project(values, src, attention, 2, 3)
    program.emit(machine.RUNNING_MEAN, mean, values, sums, 4 * layout.section)
    parts.project(query, src, attention, 0, 1)
    attended = parts.attend(query, memory, attention, SOURCE, 0)
    program.add(attended, mean, layout.section)
    parts.attention_output(parts.x, attended, attention, ADD)


TARGET_ATTENTIONS: dict[type[nn.Module], Callable[..., None]] = {
    SelfAttention: lower_self_attention,
    MixedAttention: lower_mixed_attention,
    AverageAttention: lower_average_attention,
    MergedAttention: lower_merged_attention,
}
