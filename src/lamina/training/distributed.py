"""One process or many: `torchrun` sets the environment, gloo or NCCL carries the gradients."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import distributed

from lamina.base.devices import choose_device


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
        """Every process's value, on every process."""
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
    if count == 1:
        yield Ranks(0, 1, place)
        return
    distributed.init_process_group("nccl" if place.type == "cuda" else "gloo")
    try:
        yield Ranks(rank, count, place)
    finally:
        distributed.destroy_process_group()
