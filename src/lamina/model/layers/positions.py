"""Sinusoidal positions: first half sine, second half cosine."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


def sinusoids(length: int, d_model: int, device: torch.device | None = None) -> Tensor:
    """(length, d_model): frequencies 10000^(-i/(d/2-1)); an odd last dimension is 0."""
    half = d_model // 2
    rate = math.log(10000.0) / max(half - 1, 1)
    frequency = torch.exp(torch.arange(half, device=device, dtype=torch.float32) * -rate)
    angle = torch.arange(length, device=device, dtype=torch.float32)[:, None] * frequency[None, :]
    return nn.functional.pad(torch.cat([angle.sin(), angle.cos()], dim=1), (0, d_model % 2))


class Positions(nn.Module):
    """Looks positions up in a table that grows when a longer sentence arrives.

    The table is not a buffer: it grows on demand, and keeps its precision whatever the model's dtype.
    """

    def __init__(self, d_model: int, first: int) -> None:
        super().__init__()
        self.first = first  # the number of the first position
        self.table_PD = torch.empty(0, d_model)

    def forward(self, positions: Tensor, longest: int) -> Tensor:
        """Rows for `positions`, counted from 0; all of them are below `longest`."""
        return nn.functional.embedding(positions, self.between(0, longest, positions.device))

    def between(self, start: int, end: int, device: torch.device) -> Tensor:
        """Rows for the positions from `start` up to `end`."""
        needed = self.first + end
        if needed > len(self.table_PD) or self.table_PD.device != device:
            self.table_PD = sinusoids(max(256, 2 * needed), self.table_PD.shape[1], device)
        return self.table_PD[self.first + start : needed]


def count_positions(valid_BT: Tensor) -> Tensor:
    """Positions over real tokens only, so that padding on either side changes nothing."""
    return (valid_BT.cumsum(dim=1) - 1).clamp(min=0)
