"""The standard head: one softmax over the vocabulary."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lamina.model.heads.cross_entropy import RealTokens, smoothed_cross_entropy
from lamina.model.heads.head import Head
from lamina.model.settings import HeadSettings
from lamina.model.states import DecoderStates, LogProbs, Loss, Targets

if TYPE_CHECKING:
    from lamina.model.config import ModelConfig


class SoftmaxSettings(HeadSettings):
    """`type: softmax`."""

    type: Literal["softmax"] = "softmax"
    bias: bool = False  # add a bias per vocabulary entry, as Marian does

    def build(self, model: ModelConfig, weight_VD: nn.Parameter) -> SoftmaxHead:
        return BiasedSoftmaxHead(weight_VD) if self.bias else SoftmaxHead(weight_VD)


class SoftmaxHead(Head):
    """logsoftmax(E·u) of the decoder's features u."""

    def __init__(self, weight_VD: nn.Parameter) -> None:
        super().__init__()
        self.weight_VD = weight_VD

    def forward(self, states: DecoderStates, memory: Any) -> LogProbs:
        return self.softmax(states.features_BTD)

    def loss(self, states: DecoderStates, memory: Any, targets: Targets) -> Loss:
        real = RealTokens.of(targets)
        features_ND, weight_VD = self.factors(real.take(states.features_BTD))
        total, nll_N = smoothed_cross_entropy(
            features_ND, weight_VD, real.take(targets.ids_BT), targets.smoothing, real.importance_N
        )
        return Loss(total, real.spread(nll_N), real.count)

    def factors(self, features_ND: Tensor) -> tuple[Tensor, Tensor]:
        """The two factors of the logits: features and matrix."""
        return features_ND, self.weight_VD


class BiasedSoftmaxHead(SoftmaxHead):
    """logsoftmax(E·u + b)."""

    def __init__(self, weight_VD: nn.Parameter) -> None:
        super().__init__(weight_VD)
        self.bias_V = nn.Parameter(torch.zeros(len(weight_VD)))

    def logits(self, x_BTD: Tensor) -> Tensor:
        """E·x + b for every position."""
        return F.linear(x_BTD, self.weight_VD, self.bias_V)

    def factors(self, features_ND: Tensor) -> tuple[Tensor, Tensor]:
        """Append the bias to the matrix as a column whose feature is always 1."""
        ones_N1 = features_ND.new_ones(len(features_ND), 1)
        return torch.cat([features_ND, ones_N1], dim=1), torch.cat([self.weight_VD, self.bias_V[:, None]], dim=1)
