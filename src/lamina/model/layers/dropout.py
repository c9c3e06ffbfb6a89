"""Faster dropout on a CPU: one random number yields the mask of four elements, and masks are kept as bytes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

VALUES = 2**16  # of a 16-bit random number


class Dropout(nn.Dropout):
    """`nn.Dropout`, faster on a CPU."""

    def forward(self, x: Tensor) -> Tensor:
        """In training, zero elements at random and rescale the others."""
        if not self.training or self.p == 0:
            return x
        if x.device.type != "cpu" or torch.compiler.is_compiling():
            return F.dropout(x, self.p)
        return _Drop.apply(x, draw_kept(x, self.p), VALUES / kept_values(self.p))  # type: ignore[no-untyped-call]


def keep_mask(like: Tensor, rate: float) -> Tensor:
    """A dropout mask: 0 with probability `rate`, else 1/(1-rate), drawn from torch's generator."""
    if like.device.type != "cpu" or torch.compiler.is_compiling():
        return F.dropout(torch.ones_like(like), rate)
    return draw_kept(like, rate).to(like.dtype).mul_(VALUES / kept_values(rate))


def draw_kept(like: Tensor, rate: float) -> Tensor:
    """1 for elements to keep and 0 for others, as bytes."""
    draws = torch.empty(-(-like.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
    drawn = draws.view(torch.int16)[: like.numel()].view(like.shape)
    return (drawn < kept_values(rate) - VALUES // 2).view(torch.uint8)


def kept_values(rate: float) -> int:
    """The number of random values for which an element is kept."""
    return round((1 - rate) * VALUES)


class _Drop(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, kept: Tensor, scale: float) -> Tensor:
        ctx.save_for_backward(kept)
        ctx.scale = scale
        return (x * kept).mul_(scale)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (kept,) = ctx.saved_tensors
        return (grad * kept).mul_(ctx.scale), None, None
