"""One step of a decoder layer in as few calls as it takes.

With one sentence in five rows a step is bound by calls, not by arithmetic, so this is `DecoderLayer.step` written out
flat, over rows (R, D) of numpy's, whose calls cost less than torch's, with compiled loops between the products. It is
for layers with the Transformer's self-attention and computes the same; other kinds of layers keep their own way.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from lamina.model.decoder import Decoder, DecoderLayer
from lamina.model.layers.residuals import Residual
from lamina.model.layers.target_attention import Cache, Now, PastKeys, Remembered, SelfAttention
from lamina.search import kernels
from lamina.search.kernels import Floats

Product = Callable[[Floats], Floats]
MakeProduct = Callable[[Tensor], Product]  # with a matrix


def give_quick_steps(decoder: Decoder, make: MakeProduct) -> None:
    """To every layer that can have one."""
    for layer in decoder.layers:
        if type(layer.target_attention) is SelfAttention:
            layer.quick = QuickStep(layer, layer.target_attention, make)


class QuickStep:
    """A layer's step, with its weights as they are now."""

    def __init__(self, layer: DecoderLayer, target: SelfAttention, make: MakeProduct) -> None:
        def parts(linear: nn.Linear, outputs: int | None = None) -> tuple[Product, Floats]:
            return make(linear.weight.detach()[:outputs]), linear.bias.detach()[:outputs].numpy()

        attention, cross = target.attention, layer.cross_attention
        width = attention.qkv.in_features
        self.project, self.out = parts(attention.qkv), parts(attention.out)
        self.streams = [(parts(each.qkv, width), parts(each.out)) for each in cross.streams]
        self.fusion = cross.fusion if len(self.streams) > 1 else None
        self.rise, self.fall = parts(layer.feed_forward.rise), parts(layer.feed_forward.fall)
        residuals = (layer.target_residual, layer.cross_residual, layer.feed_forward_residual)
        self.target, self.cross, self.feed_forward = map(QuickResidual, residuals)

    def __call__(self, x_BWD: Tensor, memory: Remembered, cache: Cache, now: Now) -> tuple[Tensor, Cache]:
        """As `DecoderLayer.step`."""
        assert isinstance(cache, PastKeys)
        x_RD = x_BWD.view(-1, x_BWD.shape[2]).numpy()

        cache = cache.with_room(now.end)
        project, bias_X = self.project
        packed_RX = project(self.target.enter(x_RD))
        attended_RD = kernels.attend_to_past(packed_RX, bias_X, *cache.arrays, now.seen)
        out, bias_D = self.out
        x_RD = self.target.leave(x_RD, out(attended_RD), bias_D)

        x_RD = self.cross.leave(x_RD, *self._read(self.cross.enter(x_RD), memory))

        (rise, rise_bias_X), (fall, fall_bias_D) = self.rise, self.fall
        risen_RX = kernels.relu(rise(self.feed_forward.enter(x_RD)), rise_bias_X)
        x_RD = self.feed_forward.leave(x_RD, fall(risen_RX), fall_bias_D)
        return torch.from_numpy(x_RD).view_as(x_BWD), cache

    def _read(self, entered_RD: Floats, memory: Remembered) -> tuple[Floats, Floats]:
        """What the memory says, and a bias that is still to be added."""
        read = []
        for ((query, query_bias_D), (out, bias_D)), stream in zip(self.streams, memory.streams, strict=True):
            attended_RD = kernels.attend_to_memory(query(entered_RD), query_bias_D, *stream.arrays, memory.valid)
            read.append((out(attended_RD), bias_D))
        if self.fusion is None:
            return read[0]
        fused_RD: Tensor = self.fusion(*(torch.from_numpy(result_RD + bias_D) for result_RD, bias_D in read))
        return fused_RD.numpy(), np.zeros_like(read[0][1])


class QuickResidual:
    """`Residual` without dropout."""

    def __init__(self, residual: Residual) -> None:
        norm = residual.norm
        self.pre = residual.pre
        self.norm = norm.weight.detach().numpy(), norm.bias.detach().numpy(), np.float32(norm.eps)

    def enter(self, x_RD: Floats) -> Floats:
        """What the sublayer reads."""
        return kernels.norm(x_RD, *self.norm) if self.pre else x_RD

    def leave(self, x_RD: Floats, result_RD: Floats, bias_D: Floats) -> Floats:
        """What the next sublayer gets."""
        if self.pre:
            return kernels.add(x_RD, result_RD, bias_D)
        return kernels.add_and_norm(x_RD, result_RD, bias_D, *self.norm)
