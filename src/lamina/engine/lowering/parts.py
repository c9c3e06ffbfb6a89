"""Lowering of the building blocks of models: residuals, feed-forward networks and attention."""

from __future__ import annotations

import math
from typing import TypeVar

import numpy as np
from torch import Tensor, nn

from lamina.engine import machine
from lamina.engine.machine import OWN
from lamina.engine.products import ADD, PANEL, RELU, STORE, padded
from lamina.engine.program import Floats, Program, whole_vectors
from lamina.engine.vectors import LANES
from lamina.model.layers.attention import Attention, PackedLinear
from lamina.model.layers.feedforward import FeedForward
from lamina.model.layers.residuals import Residual

Module = TypeVar("Module", bound=nn.Module)
Entry = TypeVar("Entry")


class UnsupportedModule(Exception):  # not an error for users: the model is decoded by torch
    """A module that the engine has no instructions for."""


def expect(module: nn.Module, kind: type[Module]) -> Module:
    """Return the module if it has exactly this type, else raise `UnsupportedModule`."""
    if type(module) is not kind:
        raise UnsupportedModule(type(module).__name__)
    return module


def choose(table: dict[type[nn.Module], Entry], module: nn.Module) -> Entry:
    """Look up a module by its exact type, or raise `UnsupportedModule`."""
    if type(module) not in table:
        raise UnsupportedModule(type(module).__name__)
    return table[type(module)]


class HeadLayout:
    """The layout of attention heads, each padded to whole vectors."""

    def __init__(self, heads: int, d_model: int) -> None:
        self.heads, self.size = heads, d_model // heads
        self.padded_size = padded(self.size, LANES)
        self.width = heads * self.padded_size  # of all heads
        self.section = padded(self.width, PANEL)  # stride between queries, keys and values

    def rows(self, array: Floats) -> Floats:
        """(parts·heads·size, …) → (parts·section, …), with zeros in the padding."""
        split = array.reshape(-1, self.heads, self.size, *array.shape[1:])
        padded_heads = np.zeros((len(split), self.heads, self.padded_size, *array.shape[1:]), np.float32)
        padded_heads[:, :, : self.size] = split
        sections = np.zeros((len(split), self.section, *array.shape[1:]), np.float32)
        sections[:, : self.width] = padded_heads.reshape(len(split), self.width, *array.shape[1:])
        return sections.reshape(-1, *array.shape[1:])


class Parts:
    """Emits the instructions of one model; the register `x` holds the residual stream."""

    def __init__(self, program: Program, d_model: int, ffn_size: int) -> None:
        self.program, self.d_model = program, d_model
        self.x, self.normed = program.register(d_model), program.register(d_model)
        self.hidden = program.register(ffn_size)
        self.one, self.other, self.gated = (program.register(d_model) for _ in range(3))
        self._pairs: dict[tuple[str, int], tuple[int, int]] = {}

    def attention_registers(self, layout: HeadLayout) -> tuple[int, int]:
        """Registers for queries, keys and values, and for the attended values."""
        return self._pair("attention", 3 * layout.section, layout.section)

    def wide_registers(self, width: int) -> tuple[int, int]:
        """Two scratch registers of this width."""
        return self._pair("wide", width, width)

    def _pair(self, name: str, one: int, other: int) -> tuple[int, int]:
        if (name, one) not in self._pairs:
            self._pairs[name, one] = self.program.register(one), self.program.register(other)
        return self._pairs[name, one]

    def layout(self, attention: Attention) -> HeadLayout:
        """The layout of an attention's heads."""
        expect(attention, Attention)
        return HeadLayout(attention.heads, self.d_model)

    # residuals

    def pre_norm(self, residual: Residual) -> int:
        """The register that a sublayer reads: normalised in a pre-norm model, else `x`."""
        if not expect(residual, Residual).pre:
            return self.x
        self.program.norm(self.normed, self.x, expect(residual.norm, nn.LayerNorm))
        return self.normed

    def post_norm(self, residual: Residual) -> None:
        """Normalise `x` in a post-norm model, after a sublayer's result was added to it."""
        if not residual.pre:
            self.program.norm(self.x, self.x, expect(residual.norm, nn.LayerNorm))

    def norm_into(self, dst: int, src: int, norm: nn.Module) -> int:
        """Normalise `src` into `dst` and return `dst`; if the norm is the identity, return `src`."""
        if type(norm) is nn.Identity:
            return src
        self.program.norm(dst, src, expect(norm, nn.LayerNorm))
        return dst

    # feed-forward networks and linear projections

    def linear(self, dst: int, src: int, linear: nn.Module, mode: int = STORE) -> None:
        """[dst] = W·[src] + b."""
        checked = expect(linear, nn.Linear)
        self.program.product(dst, src, checked.weight, checked.bias, mode)

    def feed_forward(self, dst: int, src: int, network: FeedForward, mode: int = ADD) -> None:
        """[dst] += W2·relu(W1·[src])."""
        expect(network, FeedForward)
        self.linear(self.hidden, src, network.up_proj, RELU)
        self.linear(dst, self.hidden, network.down_proj, mode)

    # attention

    def project(self, dst: int, src: int, attention: Attention, first: int, last: int, offset: int = 0) -> None:
        """Write projections `first` up to `last` of (query, key, value) to [dst] from section `offset` on."""
        qkv, layout = expect(attention.qkv, PackedLinear), self.layout(attention)
        chosen = slice(first * self.d_model, last * self.d_model)
        weight, bias = qkv.weight[chosen], qkv.bias[chosen]
        self.program.product(dst, src, weight, bias, STORE, offset * layout.section, layout.rows)

    def attend(self, query: int, store: int, attention: Attention, view: int, first: int) -> int:
        """Attend from a query (section 0) to keys and values in sections `first` and `first` + 1 of [store]."""
        layout = self.layout(attention)
        _, attended = self.attention_registers(layout)
        keys, size = 4 * first * layout.section, 4 * layout.padded_size
        scale = self.program.scalar(1 / math.sqrt(layout.size))
        fields = (store, keys, keys + 4 * layout.section, view, layout.heads, 0, size, scale)
        self.program.emit(machine.ATTEND, attended, query, *fields)
        return attended

    def attention_output(self, dst: int, src: int, attention: Attention, mode: int) -> None:
        """[dst] (+)= Wo·[src]."""
        out, layout = expect(attention.out, nn.Linear), self.layout(attention)
        self.program.product(dst, src, out.weight, out.bias, mode, inputs=layout.rows)

    def self_attention(self, dst: int, src: int, attention: Attention, mode: int = ADD, view: int = OWN) -> None:
        """[dst] (+)= attention from every row to its sequence, or another view, for all rows at once (encoders)."""
        qkv, _ = self.attention_registers(self.layout(attention))
        self.project(qkv, src, attention, 0, 3)
        self.attention_output(dst, self.attend(qkv, qkv, attention, view, 1), attention, mode)

    def read(self, dst: int, src: int, attention: Attention, store: int, view: int, mode: int) -> None:
        """[dst] (+)= attention to the keys and values in [store]."""
        query, _ = self.attention_registers(self.layout(attention))
        self.project(query, src, attention, 0, 1)
        self.attention_output(dst, self.attend(query, store, attention, view, 0), attention, mode)

    # gates

    def gate(self, dst: int, gate: int, one: int, other: int, width: int) -> None:
        """[dst] = [other] + σ([gate]) ⊙ ([one] − [other])."""
        self.program.emit(machine.GATE, dst, gate, one, whole_vectors(width), other)


def columns(weight: Tensor, part: int, width: int) -> Tensor:
    """The columns of a matrix for the `part`-th of several concatenated inputs."""
    return weight[:, part * width : (part + 1) * width]
