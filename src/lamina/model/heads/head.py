"""The base class of heads, which own the output distribution."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lamina.model.states import DecoderStates, EncoderStates, LogProbs, Loss, Targets


class Head(nn.Module, ABC):
    """Computes log-probabilities from decoder states, and a loss without materialising all of them.

    Loss, scoring, search and server never normalise: they use the head's log-probabilities unchanged.
    """

    weight_VD: nn.Parameter
    shortlist_VD: Tensor | None = None  # rows of the softmax matrix to use instead of it, set by search
    normalised = True  # whether probabilities sum to 1; if not, perplexities are not comparable

    def project_source(self, enc: EncoderStates) -> Any:
        """What the head needs of a source, computed once: tensors in dataclasses or tuples, or None."""
        return None

    def logits(self, x_BTD: Tensor) -> Tensor:
        """E·x for every position."""
        return F.linear(x_BTD, self.weight_VD if self.shortlist_VD is None else self.shortlist_VD)

    def softmax(self, x_BTD: Tensor) -> LogProbs:
        """The distribution whose logits are E·x, normalised in at least 32 bits."""
        logits_BTV = self.logits(x_BTD)
        precise = torch.promote_types(logits_BTV.dtype, torch.float32)
        return LogProbs(logits_BTV, logits_BTV.to(precise).logsumexp(dim=-1, keepdim=True))

    @abstractmethod
    def forward(self, states: DecoderStates, memory: Any) -> LogProbs:
        """The distribution at every position."""

    def normalised_nll(self, states: DecoderStates, memory: Any, targets: Targets) -> Tensor:
        """−log p of every target token under the renormalised distribution, (B, T), 0 at padding."""
        return self.loss(states, memory, targets).nll_BT

    @abstractmethod
    def loss(self, states: DecoderStates, memory: Any, targets: Targets) -> Loss:
        """The label-smoothed loss of the targets, equal to that of `forward`'s log-probabilities."""
