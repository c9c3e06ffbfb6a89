"""The Transformer's own head: one softmax over the vocabulary."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from torch import Tensor, nn

from lamina.model.heads.cross_entropy import smoothed_cross_entropy, spread
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
        real_BT = target_BT != pad_id
        total, nll_N = smoothed_cross_entropy(
            states.features_BTD[real_BT],
            self.weight_VD,
            target_BT[real_BT],
            smoothing,
            None if importance_BT is None else importance_BT[real_BT],
        )
        return Loss(total, spread(nll_N, real_BT), len(nll_N))
