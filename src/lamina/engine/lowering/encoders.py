"""Lowering of encoders: `stack` and `dlcl` (one class, two wirings), `msc`, `hierarchical` and `grown`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from torch import nn

from lamina.engine import machine
from lamina.engine.lowering.parts import Parts, choose, columns, expect
from lamina.engine.machine import BOTH, OWN, SOURCE
from lamina.engine.products import ADD, RELU, STORE, padded
from lamina.engine.program import Floats, whole_vectors
from lamina.engine.vectors import LANES
from lamina.model.blocks import block_ends
from lamina.model.encoders.grown import GrownEncoder
from lamina.model.encoders.hierarchical import HierarchicalEncoder, SentenceLayer
from lamina.model.encoders.msc import FfnCell, GruCell, MscEncoder, MscLayer
from lamina.model.encoders.stack import EncoderLayer, StackEncoder
from lamina.model.layers.dlcl import DlclWiring
from lamina.model.layers.fusion import AddedFusion, GatedFusion
from lamina.model.layers.growth import GrownWiring
from lamina.model.layers.positions import Positions
from lamina.model.layers.residuals import ResidualWiring, Wiring


class EncoderListener(Protocol):
    """Callbacks with which a bridge reads encoder states as they are computed; registers are reused afterwards."""

    def on_layer(self, index: int, register: int) -> None:
        """Receive the raw output of layer `index`."""

    def on_context(self, index: int, register: int) -> None:
        """Receive C^{index+1} of `msc`."""

    def on_bottom(self, register: int, released: int) -> None:
        """Receive H1 and H1 + LN_e(x) of `grown`."""


def lower_stack(parts: Parts, encoder: StackEncoder, listener: EncoderListener) -> None:
    """Lower a stack of layers."""

    def layer(index: int) -> None:
        lower_layer(parts, expect(encoder.layers[index], EncoderLayer), None)

    run_stack(parts, encoder.wiring, len(encoder.layers), layer, listener.on_layer)


def run_stack(
    parts: Parts, wiring: Wiring, count: int, layer: Callable[[int], None], on_layer: Callable[[int, int], None]
) -> None:
    """Lower layers with their wiring; each updates `x` in place, which holds the result in the end."""
    dense = choose(WIRINGS, wiring)
    kept: list[int] = []
    if type(wiring) is GrownWiring:
        run_grown_stack(parts, wiring, count, layer, on_layer)
        return
    for index in range(count):
        if dense:
            keep_output(parts, wiring, kept)
            combine(parts, wiring, kept)
        layer(index)
        on_layer(index, parts.x)
    if dense:
        keep_output(parts, wiring, kept)
        combine(parts, wiring, kept)


WIRINGS: dict[type[nn.Module], bool] = {ResidualWiring: False, DlclWiring: True, GrownWiring: False}


def run_grown_stack(
    parts: Parts, wiring: GrownWiring, count: int, layer: Callable[[int], None], on_layer: Callable[[int, int], None]
) -> None:
    """Lower a grown stack: before the first new layer, `x` += LN(the stack's input)."""
    program, width, normed = parts.program, parts.d_model, parts.program.register(parts.d_model)
    program.norm(normed, parts.x, expect(wiring.input_norm, nn.LayerNorm))
    for index in range(count):
        if index == wiring.bottom:
            program.add(parts.x, normed, width)
        layer(index)
        on_layer(index, parts.x)


def lower_grown(parts: Parts, encoder: GrownEncoder, listener: EncoderListener) -> None:
    """Lower a grown stack, and pass its bottom to the bridge."""
    wiring = expect(encoder.wiring, GrownWiring)
    released, bottom = (parts.program.register(parts.d_model) for _ in range(2))
    parts.program.norm(released, parts.x, expect(wiring.input_norm, nn.LayerNorm))

    def layer(index: int) -> None:
        lower_layer(parts, expect(encoder.layers[index], EncoderLayer), None)

    def on_layer(index: int, register: int) -> None:
        listener.on_layer(index, register)
        if index + 1 == wiring.bottom:
            normed = parts.norm_into(bottom, register, encoder.bottom_norm)
            parts.program.add(released, normed, parts.d_model)
            listener.on_bottom(normed, released)

    run_stack(parts, wiring, len(encoder.layers), layer, on_layer)


def keep_output(parts: Parts, wiring: Wiring, kept: list[int]) -> None:
    """Append what the layers above read of `x`."""
    assert isinstance(wiring, DlclWiring)
    index, register = len(kept), parts.program.register(parts.d_model)
    if wiring.pre and 0 < index <= len(wiring.norms):
        parts.program.norm(register, parts.x, expect(wiring.norms[index - 1], nn.LayerNorm))
    else:
        parts.program.copy(register, parts.x, parts.d_model)
    kept.append(register)


def combine(parts: Parts, wiring: Wiring, kept: list[int]) -> None:
    """`x` = the learned combination of all outputs below."""
    assert isinstance(wiring, DlclWiring)
    if len(kept) > len(wiring.rows):
        parts.program.copy(parts.x, kept[-1], parts.d_model)
        return
    weights = wiring.rows[len(kept) - 1].tolist()
    for number, (register, weight) in enumerate(zip(kept, weights, strict=True)):
        parts.program.mix(parts.x, register, weight, parts.d_model, accumulate=number > 0)
    if not wiring.pre and len(kept) > 1:
        parts.program.norm(parts.x, parts.x, expect(wiring.norms[len(kept) - 2], nn.LayerNorm))


def lower_layer(parts: Parts, layer: EncoderLayer, context: int | None, view: int = OWN) -> None:
    """Lower an encoder layer: self-attention, fused with attention to a context if given, and feed-forward."""
    src = parts.pre_norm(layer.attention_residual)
    if context is None:
        parts.self_attention(parts.x, src, layer.attention, view=view)
    else:
        assert isinstance(layer, MscLayer)
        attention = layer.context_attention
        query, _ = parts.attention_registers(parts.layout(attention))
        parts.self_attention(parts.one, src, layer.attention, STORE)
        parts.project(query, src, attention, 0, 1)
        parts.project(query, context, attention, 1, 3, offset=1)
        parts.attention_output(parts.other, parts.attend(query, query, attention, OWN, 1), attention, STORE)
        fuse(parts, layer.fusion)
    parts.post_norm(layer.attention_residual)
    parts.feed_forward(parts.x, parts.pre_norm(layer.feed_forward_residual), layer.feed_forward)
    parts.post_norm(layer.feed_forward_residual)


def fuse(parts: Parts, fusion: nn.Module) -> None:
    """`x` += the fusion of `one` (attended) and `other` (context)."""
    choose(FUSIONS, fusion)(parts, fusion)


def fuse_by_gate(parts: Parts, fusion: GatedFusion) -> None:
    """g = σ(W1·A + W2·K + b), x += g⊙A + (1−g)⊙K."""
    parts.linear(parts.gated, parts.one, fusion.from_attended)
    parts.linear(parts.gated, parts.other, fusion.from_context, ADD)
    parts.gate(parts.one, parts.gated, parts.one, parts.other, parts.d_model)
    parts.program.add(parts.x, parts.one, parts.d_model)


def fuse_by_addition(parts: Parts, fusion: AddedFusion) -> None:
    """x += A + K."""
    parts.program.add(parts.x, parts.one, parts.d_model)
    parts.program.add(parts.x, parts.other, parts.d_model)


FUSIONS: dict[type[nn.Module], Callable[..., None]] = {GatedFusion: fuse_by_gate, AddedFusion: fuse_by_addition}


def lower_msc(parts: Parts, encoder: MscEncoder, listener: EncoderListener) -> None:
    """Lower blocks of layers that attend to a context."""
    program, width = parts.program, parts.d_model
    context, normed = program.register(width), program.register(width)
    program.copy(context, parts.x, width)
    index = 0
    for block, end in enumerate(block_ends(encoder.sizes)):
        normed_context = None
        for norm in encoder.context_norms[block : block + 1]:
            normed_context = parts.norm_into(normed, context, norm)
        kind = EncoderLayer if normed_context is None else MscLayer
        for layer in encoder.layers[index : end + 1]:
            lower_layer(parts, expect(layer, kind), normed_context)
            listener.on_layer(index, parts.x)
            index += 1
        if block < encoder.cells:
            choose(CELLS, encoder.cell)(parts, encoder.cell, context)
            listener.on_context(block, context)


def lower_gru_cell(parts: Parts, cell: GruCell, context: int) -> None:
    """C^n = GRU(state = C^{n-1}, input = B^n)."""
    width, program = parts.d_model, parts.program
    section = padded(width, LANES)
    inputs, states = parts.wide_registers(3 * section)

    def split(array: Floats) -> Floats:
        sections = np.zeros((3, section, *array.shape[1:]), np.float32)
        sections[:, :width] = array.reshape(3, width, *array.shape[1:])
        return sections.reshape(3 * section, *array.shape[1:])

    program.product(inputs, parts.x, cell.weight_ih, cell.bias_ih, layout=split)
    program.product(states, context, cell.weight_hh, cell.bias_hh, layout=split)
    program.emit(machine.GRU, context, inputs, states, whole_vectors(width), context)


def lower_ffn_cell(parts: Parts, cell: FfnCell, context: int) -> None:
    """C^n = W2·relu(W1·[C^{n-1};B^n])."""
    up_proj, width = expect(cell.up_proj, nn.Linear), parts.d_model
    parts.program.product(parts.hidden, context, columns(up_proj.weight, 0, width), up_proj.bias)
    parts.program.product(parts.hidden, parts.x, columns(up_proj.weight, 1, width), None, ADD | RELU)
    parts.linear(context, parts.hidden, cell.down_proj)


def lower_hierarchical(parts: Parts, encoder: HierarchicalEncoder, listener: EncoderListener) -> None:
    """Lower sentence and document layers; every token row holds a copy of its sentence's document state."""
    program, width, layers = parts.program, parts.d_model, list(encoder.layers)
    for index, layer in enumerate(layers[: encoder.sentence_layers]):
        lower_layer(parts, expect(layer, SentenceLayer), None, SOURCE)
        listener.on_layer(index, parts.x)
    tokens, document, size = program.register(width), program.register(width), whole_vectors(width)
    program.copy(tokens, parts.x, width)
    positions = program.position_register(width, expect(encoder.positions, Positions))
    program.emit(machine.LAST, document, tokens, positions, size)
    for index in range(encoder.sentence_layers, len(layers)):
        program.copy(parts.x, document, width)
        lower_layer(parts, expect(layers[index], EncoderLayer), None, BOTH)
        program.copy(document, parts.x, width)
        program.copy(parts.x, tokens, width)
        parts.linear(parts.x, document, encoder.spread, ADD)
        listener.on_layer(index, parts.x)


CELLS: dict[type[nn.Module], Callable[..., None]] = {GruCell: lower_gru_cell, FfnCell: lower_ffn_cell}
ENCODERS: dict[type[nn.Module], Callable[..., None]] = {
    StackEncoder: lower_stack,
    MscEncoder: lower_msc,
    HierarchicalEncoder: lower_hierarchical,
    GrownEncoder: lower_grown,
}
