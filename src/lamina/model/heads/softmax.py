"""The Transformer's own head: one softmax over the vocabulary."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from torch import Tensor, nn

from lamina.model.heads.cross_entropy import RealTokens, smoothed_cross_entropy
from lamina.model.heads.head import Head
from lamina.model.settings import HeadSettings
from lamina.model.states import DecoderStates, LogProbs, Loss

if TYPE_CHECKING:
    from lamina.model.config import ModelConfig


class SoftmaxSettings(HeadSettings):
    """`type: softmax`."""

    type: Literal["softmax"] = "softmax"

    def build(self, model: ModelConfig, weight_VD: nn.Parameter) -> SoftmaxHead:
        """No parameters but the softmax matrix."""
        return SoftmaxHead(weight_VD)


class SoftmaxHead(Head):
    """logsoftmax(E·u) of the decoder's features u."""

    def __init__(self, weight_VD: nn.Parameter) -> None:
        super().__init__()
        self.weight_VD = weight_VD

    def forward(self, states: DecoderStates, memory: Any) -> LogProbs:
        """One vocabulary product."""
        return self.softmax(states.features_BTD)

    def loss(
        self,
        states: DecoderStates,
        memory: Any,
        target_BT: Tensor,
        pad_id: int,
        smoothing: float,
        importance_BT: Tensor | None = None,
    ) -> Loss:
        """Cross-entropy in chunks over tokens."""
        real = RealTokens.of(target_BT, pad_id, importance_BT)
        total, nll_N = smoothed_cross_entropy(
            real.take(states.features_BTD), self.weight_VD, real.take(target_BT), smoothing, real.importance_N
        )
        return Loss(total, real.spread(nll_N), real.count)
