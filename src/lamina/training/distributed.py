"""Distributed data parallelism: `torchrun` sets the environment, gloo or NCCL communicates."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
from torch import distributed

from lamina.base.devices import choose_device
from lamina.errors import LaminaError

TIMEOUT = timedelta(minutes=30)  # for one collective; must cover validation and saving on the first rank
LOST = ("Connection closed by peer", "Connection reset by peer", "Connection refused", "Broken pipe", "imed out")


@dataclass(frozen=True)
class Ranks:
    """Rank and device of this process, and the number of processes."""

    rank: int
    count: int
    device: torch.device

    @property
    def first(self) -> bool:
        """Whether this process logs and saves."""
        return self.rank == 0

    def gather(self, value: Any) -> list[Any]:
        """All-gather a picklable value over gloo, without synchronising GPUs."""
        if self.count == 1:
            return [value]
        values: list[Any] = [None] * self.count
        distributed.all_gather_object(values, value)
        return values


@contextmanager
def join_ranks(device: str) -> Iterator[Ranks]:
    """Join the process group of `torchrun`; without it, yield a single rank."""
    count, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    rank_device = choose_device(device)
    if rank_device.type == "cuda":
        torch.cuda.set_device(rank_device)  # otherwise NCCL and unqualified "cuda" use the first GPU
    ranks = Ranks(rank, count, rank_device)
    if count == 1:
        yield ranks
        return
    distributed.init_process_group("cpu:gloo,cuda:nccl" if rank_device.type == "cuda" else "gloo", timeout=TIMEOUT)
    with explain_lost_ranks(ranks):
        yield ranks
    distributed.destroy_process_group()  # not after an error: it would block on dead ranks


@contextmanager
def explain_lost_ranks(ranks: Ranks) -> Iterator[None]:
    """Convert the error a collective raises when another rank has exited into a clear message."""
    try:
        yield
    except RuntimeError as error:  # includes torch.distributed's own errors
        if not isinstance(error, distributed.DistError) and not any(words in str(error) for words in LOST):
            raise
        raise LaminaError(
            f"Rank {ranks.rank} of {ranks.count} lost its connection to the others: one of them has exited; its output "
            "says why. Rerun the same command on every machine to resume from the last checkpoint."
        ) from error
