"""Sinusoidal positions: the first half of the dimensions is sine, the second cosine."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn

Frequencies = Literal["tensor2tensor", "paper"]


def frequencies(d_model: int, kind: Frequencies = "tensor2tensor", device: torch.device | None = None) -> Tensor:
    """10000^(-i/(d/2-1)) as in tensor2tensor and fairseq, or 10000^(-2i/d) as in the paper and in Marian."""
    half = d_model // 2
    rate = math.log(10000.0) / (max(half - 1, 1) if kind == "tensor2tensor" else d_model / 2)
    return torch.exp(torch.arange(half, device=device, dtype=torch.float32) * -rate)


def sinusoids(
    length: int, d_model: int, device: torch.device | None = None, kind: Frequencies = "tensor2tensor"
) -> Tensor:
    """The table (length, d_model) of sinusoids; an odd last dimension is 0."""
    frequency = frequencies(d_model, kind, device)
    angle = torch.arange(length, device=device, dtype=torch.float32)[:, None] * frequency[None, :]
    return nn.functional.pad(torch.cat([angle.sin(), angle.cos()], dim=1), (0, d_model % 2))


class Positions(nn.Module):
    """Looks up positions in a table that grows on demand.

    The table is not a buffer, so that it stays in fp32 whatever the model's dtype.
    """

    kind: Frequencies = "tensor2tensor"

    def __init__(self, d_model: int, first: int) -> None:
        super().__init__()
        self.first = first  # index of the first position
        self.table_PD = torch.empty(0, d_model)

    def forward(self, positions: Tensor, longest: int) -> Tensor:
        """Rows for `positions`, counted from 0; all of them are below `longest`."""
        return nn.functional.embedding(positions, self.between(0, longest, positions.device))

    def between(self, start: int, end: int, device: torch.device) -> Tensor:
        """Rows for the positions from `start` up to `end`."""
        needed = self.first + end
        if needed > len(self.table_PD) or self.table_PD.device != device:
            self.table_PD = sinusoids(max(256, 2 * needed), self.table_PD.shape[1], device, self.kind)
        return self.table_PD[self.first + start : needed]

    def frequencies(self) -> Tensor:
        """The frequencies of the sinusoids."""
        return frequencies(self.table_PD.shape[1], self.kind)


class PaperPositions(Positions):
    """Positions with the frequencies of Vaswani et al. (2017), as in Marian."""

    kind: Frequencies = "paper"


def build_positions(d_model: int, first: int, kind: Frequencies) -> Positions:
    """Build positions by the name of their frequencies."""
    return Positions(d_model, first) if kind == "tensor2tensor" else PaperPositions(d_model, first)


def count_positions(valid_BT: Tensor) -> Tensor:
    """Number the real tokens, so that padding on either side has no effect."""
    return (valid_BT.long().cumsum(dim=1) - 1).clamp(min=0)
