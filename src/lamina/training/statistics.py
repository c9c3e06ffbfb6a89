"""Sums of losses and a count of failed updates, kept on the device and read when they are logged or saved.

Reading makes the host wait for everything that the device has to do, so no update reads anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass

import torch
from torch import Tensor

from lamina.model.states import Loss


@dataclass
class Window:
    """Sums over the updates since the last log line, on this rank."""

    loss: float = 0.0
    nll: float = 0.0
    tokens: int = 0

    def mean_loss(self) -> float:
        """Per target token, smoothed."""
        return self.loss / max(1, self.tokens)

    def mean_nll(self) -> float:
        """Per target token, without smoothing."""
        return self.nll / max(1, self.tokens)

    @classmethod
    def sum(cls, windows: Sequence[Window]) -> Window:
        """All ranks together."""
        return cls(*(sum(column) for column in zip(*map(astuple, windows), strict=True)))


class Tally:
    """A window that is still growing, in 64 bits on the device."""

    def __init__(self, device: torch.device, start: Window | None = None) -> None:
        start = start or Window()
        self.tokens = start.tokens
        self.sums = torch.tensor([start.loss, start.nll], dtype=torch.float64, device=device)
        self.last_read = start

    def add(self, loss: Loss, tokens: int) -> None:
        """Count one micro-batch of so many target tokens."""
        self.sums += torch.stack([loss.total.detach(), loss.nll_BT.sum()])
        self.tokens += tokens

    def read(self) -> Window:
        """What it is by now; waits for the device."""
        loss, nll = self.sums.tolist()
        self.last_read = Window(loss, nll, self.tokens)
        return self.last_read

    def glance(self) -> float:
        """The mean loss: by now where that is free, else as it was last read."""
        return (self.read() if self.sums.device.type == "cpu" else self.last_read).mean_loss()


class FailedUpdates:
    """How many updates had gradients that are not finite: all together, and in a row up to now."""

    def __init__(self, device: torch.device) -> None:
        self.together, self.in_a_row = torch.zeros(2, device=device).unbind()

    def add(self, norm: Tensor) -> Tensor:
        """Take in the gradient norm of an update; gives 1 if it failed, else 0, on the device."""
        failed = 1 - torch.isfinite(norm).float()
        self.together, self.in_a_row = self.together + failed, (self.in_a_row + 1) * failed
        return failed

    def read(self) -> tuple[int, int]:
        """All together and in a row; waits for the device."""
        together, in_a_row = torch.stack([self.together, self.in_a_row]).tolist()
        return int(together), int(in_a_row)
