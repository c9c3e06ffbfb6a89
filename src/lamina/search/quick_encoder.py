"""An encoder layer in as few calls as it takes: `EncoderLayer.compute` written out flat, for short sources.

A deep encoder reads one sentence at a time, or a few, in layers that are bound by calls. This computes the same.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lamina.model.encoders.msc import MscLayer
from lamina.model.encoders.stack import EncoderLayer
from lamina.model.layers.attention import Attention
from lamina.search import kernels
from lamina.search.kernels import Floats
from lamina.search.quick_parts import MakeProduct, QuickFeedForward, QuickResidual, fuse, quick_linear


def give_quick_layers(encoder: nn.Module, make: MakeProduct) -> None:
    """To every layer that can have one."""
    for layer in encoder.modules():
        if type(layer) in (EncoderLayer, MscLayer):
            assert isinstance(layer, EncoderLayer)
            layer.quick = QuickLayer(layer, make)


class QuickLayer:
    """A layer, with its weights as they are now."""

    def __init__(self, layer: EncoderLayer, make: MakeProduct) -> None:
        self.residual = QuickResidual(layer.attention_residual)
        self.attention = QuickAttention(layer.attention, make)
        self.context: QuickAttention | None = None
        self.fusion: nn.Module = nn.Identity()
        if isinstance(layer, MscLayer):
            self.context, self.fusion = QuickAttention(layer.context_attention, make), layer.fusion
        self.feed_forward = QuickFeedForward(layer.feed_forward, layer.feed_forward_residual, make)

    def __call__(self, x_BSD: Tensor, valid_BS: Tensor, context: tuple[Tensor, ...]) -> Tensor:
        """As `EncoderLayer.compute`."""
        x_RD, valid = rows(x_BSD), valid_BS.contiguous().numpy()
        entered_RD = self.residual.enter(x_RD)
        attended = [self.attention(entered_RD, entered_RD, valid)]
        if self.context is not None:
            attended.append(self.context(entered_RD, rows(context[0]), valid))
        x_RD = self.residual.leave(x_RD, *fuse(self.fusion, attended))
        return torch.from_numpy(self.feed_forward(x_RD)).view_as(x_BSD)


class QuickAttention:
    """Attention from rows to the memory of their source."""

    def __init__(self, attention: Attention, make: MakeProduct) -> None:
        width = attention.qkv.in_features
        self.heads = attention.heads
        self.query = quick_linear(attention.qkv, make, 0, width)
        self.pair = quick_linear(attention.qkv, make, width)
        self.out = quick_linear(attention.out, make)

    def __call__(self, x_RD: Floats, memory_RD: Floats, valid: NDArray[np.bool_]) -> tuple[Floats, Floats]:
        """What the memory says, and a bias that is still to be added."""
        pairs_RX = self.pair.product(memory_RD)
        pairs = kernels.split_heads(pairs_RX, self.pair.bias_N, len(valid), self.heads)
        attended_RD = kernels.attend_to_memory(self.query.product(x_RD), self.query.bias_N, *pairs, valid)
        return self.out.product(attended_RD), self.out.bias_N


def rows(x_BSD: Tensor) -> Floats:
    """All positions below each other."""
    return x_BSD.contiguous().view(-1, x_BSD.shape[2]).numpy()
