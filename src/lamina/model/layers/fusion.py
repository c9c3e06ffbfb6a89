"""Fusion of two attended streams: MSC's gate, or addition."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

Fusion = Literal["gate", "add"]


class GatedFusion(nn.Module):
    """MSC's gate (Wei et al. 2020, Eq. 12): g = σ(W1·A + W2·K + b), result g⊙A + (1-g)⊙K."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.from_attended = nn.Linear(d_model, d_model)
        self.from_context = nn.Linear(d_model, d_model, bias=False)

    def gate(self, attended_BTD: Tensor, context_BTD: Tensor) -> Tensor:
        """The gate g in every dimension."""
        summed = self.from_attended(attended_BTD).flatten(0, 1)
        weight = self.from_context.weight
        return torch.addmm(summed, context_BTD.flatten(0, 1), weight.t()).view_as(context_BTD).sigmoid()

    def forward(self, attended_BTD: Tensor, context_BTD: Tensor) -> Tensor:
        """Both (B, T, D)."""
        return torch.lerp(context_BTD, attended_BTD, self.gate(attended_BTD, context_BTD))


class AddedFusion(nn.Module):
    """The ablation without a gate (Wei et al. 2020, Table 5): A + K."""

    def forward(self, attended_BTD: Tensor, context_BTD: Tensor) -> Tensor:
        """Both (B, T, D)."""
        return attended_BTD + context_BTD


def build_fusion(fusion: Fusion, d_model: int) -> nn.Module:
    """Build a fusion by name."""
    return GatedFusion(d_model) if fusion == "gate" else AddedFusion()
