"""What quick layers are made of: parts of a layer, over rows (R, D) of numpy's, with their weights as they are now.

Few rows are bound by calls, not by arithmetic: numpy's calls cost less than torch's, and compiled loops do in one call
all that is between two matrix products.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lamina.model.layers.attention import Attention
from lamina.model.layers.feedforward import FeedForward
from lamina.model.layers.residuals import Residual
from lamina.search import kernels
from lamina.search.kernels import Floats

Valid = NDArray[np.bool_]  # (B, M)
Product = Callable[[Floats], Floats]
MakeProduct = Callable[[Tensor], Product]  # with a matrix


class QuickLinear(NamedTuple):
    """A product, and the bias that whoever reads its result adds."""

    product: Product
    bias_N: Floats


def quick_linear(linear: nn.Linear, make: MakeProduct, first: int = 0, last: int | None = None) -> QuickLinear:
    """Outputs `first` up to `last` of a linear layer."""
    part = slice(first, last)
    return QuickLinear(make(linear.weight.detach()[part]), linear.bias.detach()[part].numpy())


class QuickReader:
    """Attention from rows to the keys and values of their source."""

    def __init__(self, attention: Attention, make: MakeProduct) -> None:
        self.query = quick_linear(attention.qkv, make, 0, attention.qkv.in_features)
        self.out = quick_linear(attention.out, make)

    def read(self, x_RD: Floats, pairs: tuple[Floats, Floats], valid: Valid) -> tuple[Floats, Floats]:
        """What the memory says, and a bias that is still to be added."""
        attended_RD = kernels.attend_to_memory(self.query.product(x_RD), self.query.bias_N, *pairs, valid)
        return self.out.product(attended_RD), self.out.bias_N


class QuickResidual:
    """`Residual` without dropout."""

    def __init__(self, residual: Residual) -> None:
        norm = residual.norm
        self.pre = residual.pre
        self.norm = norm.weight.detach().numpy(), norm.bias.detach().numpy(), kernels.f4(norm.eps)

    def enter(self, x_RD: Floats) -> Floats:
        """What the sublayer reads."""
        return kernels.norm(x_RD, *self.norm) if self.pre else x_RD

    def leave(self, x_RD: Floats, result_RD: Floats, bias_D: Floats) -> Floats:
        """What the next sublayer gets, in the place of the result."""
        if self.pre:
            return kernels.add(x_RD, result_RD, bias_D)
        return kernels.add_and_norm(x_RD, result_RD, bias_D, *self.norm)


class QuickFeedForward:
    """`FeedForward` with its residual."""

    def __init__(self, feed_forward: FeedForward, residual: Residual, make: MakeProduct) -> None:
        self.rise, self.fall = quick_linear(feed_forward.rise, make), quick_linear(feed_forward.fall, make)
        self.residual = QuickResidual(residual)

    def __call__(self, x_RD: Floats) -> Floats:
        """(R, D) → (R, D)."""
        risen_RX = kernels.relu(self.rise.product(self.residual.enter(x_RD)), self.rise.bias_N)
        return self.residual.leave(x_RD, self.fall.product(risen_RX), self.fall.bias_N)


def fuse(fusion: nn.Module, results: list[tuple[Floats, Floats]]) -> tuple[Floats, Floats]:
    """Results of several attentions, each with its bias, made one, with what bias is left."""
    if len(results) == 1:
        return results[0]
    fused_RD: Tensor = fusion(*(torch.from_numpy(result_RD + bias_D) for result_RD, bias_D in results))
    return fused_RD.numpy(), 0 * results[0][1]
