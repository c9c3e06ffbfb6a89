"""Dropout with masks drawn four elements at a time on a CPU, where torch draws them one by one."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Dropout(nn.Dropout):
    """`nn.Dropout` with a faster draw on a CPU."""

    def forward(self, x: Tensor) -> Tensor:
        """Zero elements in training, and scale the others so that the mean stays."""
        if not self.training or self.p == 0:
            return x
        return x * keep_mask(x, self.p)


def keep_mask(like: Tensor, rate: float) -> Tensor:
    """0 with probability `rate`, else 1/(1-rate), for every element; drawn from torch's generator."""
    if like.device.type != "cpu":
        return F.dropout(torch.ones_like(like), rate)
    draws = torch.empty(-(-like.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
    kept = round((1 - rate) * 2**16)  # of 65,536 equally likely values
    below = draws.view(torch.int16)[: like.numel()].view(like.shape) < kept - 2**15
    return below.to(like.dtype).mul_(2**16 / kept)
