"""What a head is: the owner of the output distribution."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from torch import Tensor, nn

from lamina.model.states import DecoderStates, EncoderStates, LogProbs, Loss


class Head(nn.Module, ABC):
    """Turns decoder states into log-probabilities, and into a loss that never builds them all.

    Loss, scoring, search and server never normalise: whatever a head says a token's log-probability is, it is.
    """

    weight_VD: nn.Parameter

    def remember(self, enc: EncoderStates) -> Any:
        """What the head keeps of a source, once per source: tensors in dataclasses or tuples, or nothing."""
        return None

    @abstractmethod
    def forward(self, states: DecoderStates, memory: Any) -> LogProbs:
        """The distribution at every position."""

    @abstractmethod
    def loss(self, states: DecoderStates, memory: Any, target_BT: Tensor, pad_id: int, smoothing: float) -> Loss:
        """The label-smoothed loss of `target`, equal to that of `forward`'s log-probabilities."""
