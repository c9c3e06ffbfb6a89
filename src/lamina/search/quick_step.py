"""One step of a decoder layer in as few calls as it takes.

With one sentence in five rows a step is bound by calls, not by arithmetic, so this is `DecoderLayer.step` written out
flat, over rows (R, D) of numpy's, whose calls cost less than torch's, with compiled loops between the products. It is
for layers with the Transformer's self-attention and computes the same; other kinds of layers keep their own way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from lamina.model.decoder import Decoder, DecoderLayer
from lamina.model.layers.residuals import Residual
from lamina.model.layers.target_attention import Cache, Now, PastKeys, Remembered, SelfAttention
from lamina.search import kernels
from lamina.search.kernels import Floats

Product = Callable[[Floats], Floats]
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
        x_RD = x_BWD.view(-1, x_BWD.shape[2]).numpy()

        cache = cache.with_room(now.end)
        packed_RX = self.project(self.target.enter(x_RD))
        attended_RD = kernels.attend_to_past(packed_RX, *cache.arrays, now.seen)
        x_RD = self.target.leave(x_RD, self.out(attended_RD))

        entered_RD = self.cross.enter(x_RD)
        read = []
        for (query, out), stream in zip(self.streams, memory.streams, strict=True):
            read.append(out(kernels.attend_to_memory(query(entered_RD), *stream.arrays, memory.valid)))
        x_RD = self.cross.leave(x_RD, read[0] if len(read) == 1 else self._fuse(read))

        risen_RX = self.rise(self.feed_forward.enter(x_RD))
        x_RD = self.feed_forward.leave(x_RD, self.fall(np.maximum(risen_RX, 0, out=risen_RX)))
        return torch.from_numpy(x_RD).view_as(x_BWD), cache

    def _fuse(self, read: Sequence[Floats]) -> Floats:
        fused_RD: Tensor = self.fusion(*map(torch.from_numpy, read))
        return fused_RD.numpy()


class QuickResidual:
    """`Residual` without dropout."""

    def __init__(self, residual: Residual) -> None:
        norm = residual.norm
        self.pre = residual.pre
        self.norm = norm.weight.detach().numpy(), norm.bias.detach().numpy(), np.float32(norm.eps)

    def enter(self, x_RD: Floats) -> Floats:
        """What the sublayer reads."""
        return kernels.norm(x_RD, *self.norm) if self.pre else x_RD

    def leave(self, x_RD: Floats, result_RD: Floats) -> Floats:
        """What the next sublayer gets."""
        return x_RD + result_RD if self.pre else kernels.add_and_norm(x_RD, result_RD, *self.norm)
