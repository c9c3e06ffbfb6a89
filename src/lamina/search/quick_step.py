"""One step of a decoder layer in as few calls as it takes.

With one sentence in five rows a step is bound by calls, not by arithmetic, so this is `DecoderLayer.step` written out
flat, over rows (R, D), with compiled loops between the products, for layers with the Transformer's self-attention. It
computes the same; other kinds of layers keep their own way.
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

Product = Callable[[Tensor], Tensor]
MakeProduct = Callable[[Tensor, Tensor], Product]  # of a matrix and its bias


def give_quick_steps(decoder: Decoder, make: MakeProduct) -> None:
    """To every layer that can have one."""
    for layer in decoder.layers:
        if type(layer.target_attention) is SelfAttention:
            layer.quick = QuickStep(layer, layer.target_attention, make)


class QuickStep:
    """A layer's step, with its weights as they are now."""

    def __init__(self, layer: DecoderLayer, target: SelfAttention, make: MakeProduct) -> None:
        def of_linear(linear: nn.Linear, outputs: int | None = None) -> Product:
            return make(linear.weight.detach()[:outputs], linear.bias.detach()[:outputs])

        attention = target.attention
        width = attention.qkv.in_features
        self.project, self.out = of_linear(attention.qkv), of_linear(attention.out)
        self.streams = [(of_linear(each.qkv, width), of_linear(each.out)) for each in layer.cross_attention.streams]
        self.fusion = layer.cross_attention.fusion
        self.rise, self.fall = of_linear(layer.feed_forward.rise), of_linear(layer.feed_forward.fall)
        residuals = (layer.target_residual, layer.cross_residual, layer.feed_forward_residual)
        self.target, self.cross, self.feed_forward = map(QuickResidual, residuals)

    def __call__(self, x_BWD: Tensor, memory: Remembered, cache: Cache, now: Now) -> tuple[Tensor, Cache]:
        """As `DecoderLayer.step`."""
        assert isinstance(cache, PastKeys)
        x_RD = x_BWD.view(-1, x_BWD.shape[2])

        packed_RX = self.project(self.target.enter(x_RD))
        cache = cache.with_room(now.position, x_BWD.shape[1])
        attended = kernels.attend_to_past(packed_RX.numpy(), *cache.arrays, now.seen, now.position)
        x_RD = self.target.leave(x_RD, self.out(torch.from_numpy(attended)))

        entered_RD = self.cross.enter(x_RD)
        read = []
        for (query, out), stream in zip(self.streams, memory.streams, strict=True):
            attended = kernels.attend_to_memory(query(entered_RD).numpy(), *stream.arrays, memory.valid)
            read.append(out(torch.from_numpy(attended)))
        x_RD = self.cross.leave(x_RD, self.fusion(*read))

        risen_RD = self.rise(self.feed_forward.enter(x_RD)).relu_()
        x_RD = self.feed_forward.leave(x_RD, self.fall(risen_RD))
        return x_RD.view_as(x_BWD), cache


class QuickResidual:
    """`Residual` without dropout, for results that nobody else reads."""

    def __init__(self, residual: Residual) -> None:
        norm = residual.norm
        self.pre, self.shape, self.eps = residual.pre, norm.normalized_shape, norm.eps
        self.weight, self.bias = norm.weight.detach(), norm.bias.detach()
        self.parameters = self.weight.numpy(), self.bias.numpy(), np.float32(norm.eps)

    def enter(self, x_RD: Tensor) -> Tensor:
        """What the sublayer reads."""
        return torch.layer_norm(x_RD, self.shape, self.weight, self.bias, self.eps) if self.pre else x_RD

    def leave(self, x_RD: Tensor, result_RD: Tensor) -> Tensor:
        """What the next sublayer gets."""
        if self.pre:
            return result_RD.add_(x_RD)
        return torch.from_numpy(kernels.add_and_norm(x_RD.numpy(), result_RD.numpy(), *self.parameters))
