"""Exponential moving average of the weights, used for validation and in saved models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class MovingAverage:
    """w̄ ← d·w̄ + (1-d)·w after every step, initialised with w."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.model, self.decay = model, decay
        self.average = {name: weight.detach().clone() for name, weight in model.named_parameters()}

    def update(self) -> None:
        """Update the average with the current weights."""
        weights = [weight.detach() for weight in self.model.parameters()]
        torch._foreach_lerp_(list(self.average.values()), weights, 1 - self.decay)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Swap the average into the model for the duration of the context."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def load(self, average: Mapping[str, Tensor]) -> None:
        """Restore a saved average."""
        for name, weight in average.items():
            self.average[name].copy_(weight)

    def _swap(self) -> None:
        for name, weight in self.model.named_parameters():
            weight.data, self.average[name] = self.average[name], weight.data
