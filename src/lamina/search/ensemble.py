"""Ensembles, which average the probabilities of several models."""

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
    """Combines steppers of the same vocabulary: p = (p_1 + … + p_n) / n."""

    def __init__(self, members: Sequence[Stepper]) -> None:
        self.members = tuple(members)

    def start(self, source_BS: Tensor, rows: int) -> States:
        return tuple(member.start(source_BS, rows) for member in self.members)

    def step(self, tokens_R: Tensor, state: States) -> tuple[LogProbs, States]:
        steps = [member.step(tokens_R, each) for member, each in zip(self.members, state, strict=True)]
        mean_BWV = torch.stack([log_probs.full() for log_probs, _ in steps]).logsumexp(dim=0) - math.log(len(steps))
        return LogProbs(mean_BWV, mean_BWV.new_zeros(*mean_BWV.shape[:2], 1)), tuple(each for _, each in steps)

    def reorder(self, state: States, rows_R: Tensor) -> States:
        return tuple(member.reorder(each, rows_R) for member, each in zip(self.members, state, strict=True))

    def keep(self, state: States, sources: Tensor) -> States:
        return tuple(member.keep(each, sources) for member, each in zip(self.members, state, strict=True))
