"""One step of a decoder layer in as few operations as it takes.

With one sentence in five rows a step is bound by calls, not by arithmetic, so this is `DecoderLayer.step` written out
flat, over rows (R, D), for layers with the Transformer's self-attention. It computes the same; other kinds of layers
keep their own way.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from lamina.model.decoder import Decoder, DecoderLayer
from lamina.model.layers.attention import KeysValues
from lamina.model.layers.residuals import Residual
from lamina.model.layers.target_attention import Cache, Now, PastKeys, Remembered, SelfAttention

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
        self.heads, width = attention.heads, attention.qkv.in_features
        self.project, self.out = of_linear(attention.qkv), of_linear(attention.out)
        self.streams = [(of_linear(each.qkv, width), of_linear(each.out)) for each in layer.cross_attention.streams]
        self.fusion = layer.cross_attention.fusion
        self.rise, self.fall = of_linear(layer.feed_forward.rise), of_linear(layer.feed_forward.fall)
        residuals = (layer.target_residual, layer.cross_residual, layer.feed_forward_residual)
        self.target, self.cross, self.feed_forward = map(QuickResidual, residuals)

    def __call__(self, x_BWD: Tensor, memory: Remembered, cache: Cache, now: Now) -> tuple[Tensor, Cache]:
        """As `DecoderLayer.step`."""
        assert isinstance(cache, PastKeys)
        batch, rows, width = x_BWD.shape
        split = (batch, rows, 3, self.heads, width // self.heads)
        x_RD = x_BWD.view(-1, width)

        packed = self.project(self.target.enter(x_RD)).view(split).permute(2, 0, 3, 1, 4)
        query_BHWK, key_BHWK, value_BHWK = packed.unbind(0)
        cache = cache.write(key_BHWK, value_BHWK, now.position)
        attended_RD = attend(query_BHWK, cache.until(now.seen_BHWM.shape[3]), now.seen_AWM)
        x_RD = self.target.leave(x_RD, self.out(attended_RD))

        entered_RD = self.cross.enter(x_RD)
        read = []
        for (query, out), stream in zip(self.streams, memory.streams, strict=True):
            query_BHWK = query(entered_RD).view(batch, rows, self.heads, -1).transpose(1, 2)
            read.append(out(attend(query_BHWK, stream, memory.bias_A1M)))
        x_RD = self.cross.leave(x_RD, self.fusion(*read))

        risen_RD = self.rise(self.feed_forward.enter(x_RD)).relu_()
        x_RD = self.feed_forward.leave(x_RD, self.fall(risen_RD))
        return x_RD.view(batch, rows, width), cache


class QuickResidual:
    """`Residual` without dropout, for results that nobody else reads."""

    def __init__(self, residual: Residual) -> None:
        norm = residual.norm
        self.pre, self.shape, self.eps = residual.pre, norm.normalized_shape, norm.eps
        self.weight, self.bias = norm.weight.detach(), norm.bias.detach()

    def enter(self, x_RD: Tensor) -> Tensor:
        """What the sublayer reads."""
        return torch.layer_norm(x_RD, self.shape, self.weight, self.bias, self.eps) if self.pre else x_RD

    def leave(self, x_RD: Tensor, result_RD: Tensor) -> Tensor:
        """What the next sublayer gets."""
        total_RD = result_RD.add_(x_RD)
        return total_RD if self.pre else torch.layer_norm(total_RD, self.shape, self.weight, self.bias, self.eps)


def attend(query_BHWK: Tensor, memory: KeysValues, bias: Tensor | None) -> Tensor:
    """softmax(QKᵀ/√K + bias)V, as rows (R, D). The bias is (A, 1 or W, M), A the heads of all sources."""
    batch, heads, rows, width = query_BHWK.shape
    query_AWK = query_BHWK.reshape(-1, rows, width)
    keys_AKM, values_AMK = memory.by_head
    if bias is None:
        scores_AWM = torch.bmm(query_AWK, keys_AKM).mul_(width**-0.5)
    else:
        scores_AWM = torch.baddbmm(bias, query_AWK, keys_AKM, alpha=width**-0.5)
    read_AWK = torch.bmm(scores_AWM.softmax(-1), values_AMK)
    return read_AWK.view(batch, heads, rows, width).transpose(1, 2).reshape(batch * rows, -1)
