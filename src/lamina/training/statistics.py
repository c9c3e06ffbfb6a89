"""Sums of losses and a count of failed updates, kept on the device and read when they are logged or saved.

Reading makes the host wait for everything that the device has to do, so no update reads anything.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass

import torch
from torch import Tensor

from lamina.base.progress import describe_duration
from lamina.model.states import Loss

WARM_UP, ANNOUNCED = 2, 10  # updates: that are not timed, and after which the time left is announced


@dataclass
class Window:
    """Sums over the updates since the last log line, on this rank."""

    loss: float = 0.0
    nll: float = 0.0
    tokens: int = 0
    weight: float = 0.0  # what the loss is divided by: the tokens, each by its importance

    def mean_loss(self) -> float:
        """Per target token, smoothed."""
        return self.loss / max(1, self.weight)

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
        self.tokens, self.weight = start.tokens, start.weight
        self.sums = torch.tensor([start.loss, start.nll], dtype=torch.float64, device=device)
        self.last_read = start

    def add(self, loss: Loss, tokens: int, weight: float) -> None:
        """Count one micro-batch: its target tokens, and the sum of their importance."""
        self.sums += torch.stack([loss.total.detach(), loss.nll_BT.sum()])
        self.tokens += tokens
        self.weight += weight

    def read(self) -> Window:
        """What it is by now; waits for the device."""
        loss, nll = self.sums.tolist()
        self.last_read = Window(loss, nll, self.tokens, self.weight)
        return self.last_read

    def glance(self) -> float:
        """The mean loss: by now where that is free, else as it was last read."""
        return (self.read() if self.sums.device.type == "cpu" else self.last_read).mean_loss()


class Speed:
    """Target tokens per second since the last log line, without the time of validation and saving."""

    def __init__(self) -> None:
        self.tokens, self.started = 0, time.perf_counter()

    def per_second(self) -> float:
        """By the clock: where the device works on its own, right only once it has been waited for."""
        return self.tokens / max(1e-9, time.perf_counter() - self.started)

    @contextmanager
    def pause(self, tally: Tally) -> Iterator[None]:
        """Within the context no time passes; before, the device finishes what the tally counts."""
        tally.read()
        paused = time.perf_counter()
        yield
        self.started += time.perf_counter() - paused


class Pace:
    """How long the rest will take, judged by all that was done since the first updates of this process."""

    def __init__(self) -> None:
        self.steps, self.started = 0, time.perf_counter()

    def step(self, left: int) -> str | None:
        """Count an update, of which the first ones take longer and are not timed; once, say how long the rest takes."""
        self.steps += 1
        if self.steps == WARM_UP:
            self.started = time.perf_counter()
        seconds = self.seconds_left(left) if self.steps == ANNOUNCED and left else None
        return None if seconds is None else f"About {describe_duration(seconds)} for the {left:,} steps left."

    def seconds_left(self, steps: int) -> float | None:
        """The time for this many more steps at the mean pace so far, including validation; None if it is too early."""
        timed = self.steps - WARM_UP
        return steps * (time.perf_counter() - self.started) / timed if timed > 0 else None


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
