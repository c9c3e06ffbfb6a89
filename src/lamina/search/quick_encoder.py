"""An encoder layer in as few calls as it takes: `EncoderLayer.compute` written out flat, for short sources.

A deep encoder reads one sentence at a time, or a few, in layers that are bound by calls. This computes the same.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lamina.model.encoders.msc import MscLayer
from lamina.model.encoders.stack import EncoderLayer
from lamina.model.layers.attention import Attention
from lamina.search import kernels
from lamina.search.kernels import Floats
from lamina.search.quick_parts import (
    MakeProduct,
    QuickFeedForward,
    QuickReader,
    QuickResidual,
    Valid,
    fuse,
    quick_linear,
)


def give_quick_layers(encoder: nn.Module, make: MakeProduct) -> None:
    """To every layer that can have one."""
    for layer in encoder.modules():
        if isinstance(layer, EncoderLayer):
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


class QuickAttention(QuickReader):
    """Attention from rows to the states of their source."""

    def __init__(self, attention: Attention, make: MakeProduct) -> None:
        super().__init__(attention, make)
        self.heads = attention.heads
        self.pair = quick_linear(attention.qkv, make, attention.qkv.in_features)

    def __call__(self, x_RD: Floats, states_RD: Floats, valid: Valid) -> tuple[Floats, Floats]:
        """What the states say, and a bias that is still to be added."""
        pairs_RX = self.pair.product(states_RD)
        return self.read(x_RD, kernels.split_heads(pairs_RX, self.pair.bias_N, len(valid), self.heads), valid)


def rows(x_BSD: Tensor) -> Floats:
    """All positions below each other."""
    return x_BSD.contiguous().view(-1, x_BSD.shape[2]).numpy()
