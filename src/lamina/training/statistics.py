"""Training statistics, accumulated on the device and read only for logging and saving.

Reading synchronises the host with the device, so updates never read.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass

import torch
from torch import Tensor

from lamina.base.progress import describe_duration
from lamina.base.wording import counted
from lamina.model.states import Loss

WARM_UP, ANNOUNCED = 2, 10  # updates excluded from timing; updates after which the remaining time is announced


@dataclass
class Window:
    """Sums over the updates since the last log line, on this rank."""

    loss: float = 0.0
    nll: float = 0.0
    tokens: int = 0
    weight: float = 0.0  # denominator of the loss: sum of the token weights

    def mean_loss(self) -> float:
        """Smoothed loss per target token."""
        return self.loss / max(1, self.weight)

    def mean_nll(self) -> float:
        """Negative log-likelihood per target token."""
        return self.nll / max(1, self.tokens)

    @classmethod
    def sum(cls, windows: Sequence[Window]) -> Window:
        """Sum over ranks."""
        return cls(*(sum(column) for column in zip(*map(astuple, windows), strict=True)))


class Tally:
    """Accumulates a `Window` on the device in fp64."""

    def __init__(self, device: torch.device, start: Window | None = None) -> None:
        start = start or Window()
        self.tokens, self.weight = start.tokens, start.weight
        self.sums = torch.tensor([start.loss, start.nll], dtype=torch.float64, device=device)
        self.last_read = start

    def add(self, loss: Loss, tokens: int, weight: float) -> None:
        """Add a micro-batch with its number of target tokens and the sum of their weights."""
        self.sums += torch.stack([loss.total.detach(), loss.nll_BT.sum()])
        self.tokens += tokens
        self.weight += weight

    def read(self) -> Window:
        """Read the current sums; synchronises with the device."""
        loss, nll = self.sums.tolist()
        self.last_read = Window(loss, nll, self.tokens, self.weight)
        return self.last_read

    def glance(self) -> float:
        """Mean loss without synchronising: the current one on a CPU, otherwise the last one read."""
        return (self.read() if self.sums.device.type == "cpu" else self.last_read).mean_loss()


class Speed:
    """Throughput in target tokens per second since the last log line, excluding validation and saving."""

    def __init__(self) -> None:
        self.tokens, self.started = 0, time.perf_counter()

    def per_second(self) -> float:
        """Throughput by wall time; accurate on a GPU only after a synchronisation."""
        return self.tokens / max(1e-9, time.perf_counter() - self.started)

    @contextmanager
    def pause(self, tally: Tally) -> Iterator[None]:
        """Stop the clock for the duration of the context, after synchronising with the device."""
        tally.read()
        paused = time.perf_counter()
        yield
        self.started += time.perf_counter() - paused


class Pace:
    """Estimates the remaining time from all updates of this process after the warm-up."""

    def __init__(self) -> None:
        self.steps, self.started = 0, time.perf_counter()

    def step(self, left: int) -> str | None:
        """Count an update; return an announcement of the remaining time once, after the first updates."""
        self.steps += 1
        if self.steps == WARM_UP:
            self.started = time.perf_counter()
        seconds = self.seconds_left(left) if self.steps == ANNOUNCED and left else None
        return None if seconds is None else f"About {describe_duration(seconds)} for the {counted(left, 'step')} left."

    def seconds_left(self, steps: int) -> float | None:
        """Estimated time of the remaining steps, including validation and saving; None during the warm-up."""
        timed = self.steps - WARM_UP
        return steps * (time.perf_counter() - self.started) / timed if timed > 0 else None


class FailedUpdates:
    """Counts updates with non-finite gradients: in total, and the current streak."""

    def __init__(self, device: torch.device) -> None:
        self.total, self.in_a_row = torch.zeros(2, device=device).unbind()

    def add(self, norm: Tensor) -> Tensor:
        """Count an update by its gradient norm; return 1.0 if it failed, otherwise 0.0, on the device."""
        failed = 1 - torch.isfinite(norm).float()
        self.total, self.in_a_row = self.total + failed, (self.in_a_row + 1) * failed
        return failed

    def read(self) -> tuple[int, int]:
        """Read the total and the current streak; synchronises with the device."""
        total, in_a_row = torch.stack([self.total, self.in_a_row]).tolist()
        return int(total), int(in_a_row)


def perplexity(nll: float) -> float:
    """e^nll, or infinity on overflow."""
    return math.exp(nll) if nll < 700 else math.inf
