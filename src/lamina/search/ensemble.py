"""Several models that write one text: the mean of their probabilities."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from lamina.model.states import LogProbs
from lamina.search.stepper import Stepper

States = tuple[Any, ...]


class EnsembleStepper:
    """Steps of the same vocabulary as one: p = (p_1 + … + p_n) / n."""

    def __init__(self, members: Sequence[Stepper]) -> None:
        self.members = tuple(members)

    def start(self, source_BS: Tensor, rows: int) -> States:
        """Each member's."""
        return tuple(member.start(source_BS, rows) for member in self.members)

    def step(self, tokens_R: Tensor, state: States) -> tuple[LogProbs, States]:
        """The mean in probabilities."""
        steps = [member.step(tokens_R, own) for member, own in zip(self.members, state, strict=True)]
        together = torch.stack([log_probs.full() for log_probs, _ in steps]).logsumexp(dim=0) - math.log(len(steps))
        return LogProbs(together, together.new_zeros(*together.shape[:2], 1)), tuple(own for _, own in steps)

    def reorder(self, state: States, rows_R: Tensor) -> States:
        """Each member's."""
        return tuple(member.reorder(own, rows_R) for member, own in zip(self.members, state, strict=True))

    def keep(self, state: States, sources: Tensor) -> States:
        """Each member's."""
        return tuple(member.keep(own, sources) for member, own in zip(self.members, state, strict=True))
