"""One process or many: `torchrun` sets the environment, gloo or NCCL carries the gradients."""

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

TIMEOUT = timedelta(minutes=30)  # that a rank waits for the others; the first one's validation and saving are in it
LOST = ("Connection closed by peer", "Connection reset by peer", "Connection refused", "Broken pipe", "imed out")


@dataclass(frozen=True)
class Ranks:
    """Which of how many processes this is, and the device it trains on."""

    rank: int
    count: int
    device: torch.device

    @property
    def first(self) -> bool:
        """Whether this process logs and saves."""
        return self.rank == 0

    def gather(self, value: Any) -> list[Any]:
        """Every process's value, on every process; it goes through the hosts, and no GPU is waited for."""
        if self.count == 1:
            return [value]
        values: list[Any] = [None] * self.count
        distributed.all_gather_object(values, value)
        return values


@contextmanager
def join_ranks(device: str) -> Iterator[Ranks]:
    """Join the group that `torchrun` started; alone without it."""
    count, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    place = choose_device(device)
    if place.type == "cuda":
        torch.cuda.set_device(place)  # else NCCL and everything that names no device would go to the first GPU
    ranks = Ranks(rank, count, place)
    if count == 1:
        yield ranks
        return
    distributed.init_process_group("cpu:gloo,cuda:nccl" if place.type == "cuda" else "gloo", timeout=TIMEOUT)
    with explain_lost_ranks(ranks):
        yield ranks
    distributed.destroy_process_group()  # not after an error: it would wait for ranks that are gone


@contextmanager
def explain_lost_ranks(ranks: Ranks) -> Iterator[None]:
    """Turn the errors of collectives whose peer has exited into one that says so."""
    try:
        yield
    except RuntimeError as error:  # those of torch.distributed are RuntimeErrors as well
        if not isinstance(error, distributed.DistError) and not any(words in str(error) for words in LOST):
            raise
        raise LaminaError(
            f"Rank {ranks.rank} of {ranks.count} lost its connection to the others: one of them has exited; its output "
            "says why. Rerun the same command on every machine to resume from the last checkpoint."
        ) from error
