"""One step of a decoder layer in as few calls as it takes.

This is `DecoderLayer.step` written out flat. It is for layers with the Transformer's self-attention and computes the
same; other kinds of layers keep their own way.
"""

from __future__ import annotations

import torch
from torch import Tensor

from lamina.model.decoder import Decoder, DecoderLayer
from lamina.model.layers.target_attention import Cache, Now, PastKeys, Remembered, SelfAttention
from lamina.search import kernels
from lamina.search.quick_parts import MakeProduct, QuickFeedForward, QuickReader, QuickResidual, fuse, quick_linear


def give_quick_steps(decoder: Decoder, make: MakeProduct) -> None:
    """To every layer that can have one."""
    for layer in decoder.layers:
        if type(layer.target_attention) is SelfAttention:
            layer.quick = QuickStep(layer, layer.target_attention, make)


class QuickStep:
    """A layer's step, with its weights as they are now."""

    def __init__(self, layer: DecoderLayer, target: SelfAttention, make: MakeProduct) -> None:
        attention, cross = target.attention, layer.cross_attention
        self.project, self.out = quick_linear(attention.qkv, make), quick_linear(attention.out, make)
        self.readers = [QuickReader(each, make) for each in cross.streams]
        self.fusion = cross.fusion
        self.target, self.cross = QuickResidual(layer.target_residual), QuickResidual(layer.cross_residual)
        self.feed_forward = QuickFeedForward(layer.feed_forward, layer.feed_forward_residual, make)

    def __call__(self, x_BWD: Tensor, memory: Remembered, cache: Cache, now: Now) -> tuple[Tensor, Cache]:
        """As `DecoderLayer.step`."""
        assert isinstance(cache, PastKeys)
        x_RD = x_BWD.view(-1, x_BWD.shape[2]).numpy()
        cache = cache.with_room(now.end)
        packed_RX = self.project.product(self.target.enter(x_RD))
        attended_RD = kernels.attend_to_past(packed_RX, self.project.bias_N, *cache.arrays, now.seen)
        x_RD = self.target.leave(x_RD, self.out.product(attended_RD), self.out.bias_N)
        entered_RD = self.cross.enter(x_RD)
        streams = zip(self.readers, memory.streams, strict=True)
        read = [reader.read(entered_RD, stream.arrays, memory.valid) for reader, stream in streams]
        x_RD = self.cross.leave(x_RD, *fuse(self.fusion, read))
        return torch.from_numpy(self.feed_forward(x_RD)).view_as(x_BWD), cache
