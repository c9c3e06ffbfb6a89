"""Batches on their way to the device: as tensors in pinned memory, loaded by a thread while the device computes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from lamina.corpus.batches import Batch, Update

AHEAD = 2  # updates that wait for the device
FILLER = ([[2]], [[0]], [[2]])  # what a rank without a sentence computes, times 0: DDP wants every rank to take part

Loaded = TypeVar("Loaded")


@dataclass(frozen=True)
class TensorBatch:
    """A micro-batch as tensors on the host: source, prefix, target."""

    tensors: tuple[Tensor, Tensor, Tensor]
    tokens: int  # real target tokens; 0 for a filler

    def to(self, device: torch.device) -> tuple[Tensor, ...]:
        """On the device; from pinned memory nobody waits for the copy."""
        return tuple(tensor.to(device, non_blocking=True) for tensor in self.tensors)


@dataclass(frozen=True)
class TensorUpdate:
    """What one optimizer step sees on one rank, and the target tokens that all ranks see together."""

    batches: list[TensorBatch]
    tokens: int


def as_tensors(batch: Batch, device: torch.device) -> TensorBatch:
    """Pinned if a GPU will want it."""
    arrays: Any = (batch.source, batch.prefix, batch.target) if len(batch.pairs) else FILLER
    source, prefix, target = (torch.as_tensor(array) for array in arrays)
    tokens = batch.tokens if len(batch.pairs) else 0
    if device.type == "cuda":
        return TensorBatch((source.pin_memory(), prefix.pin_memory(), target.pin_memory()), tokens)
    return TensorBatch((source, prefix, target), tokens)


def load_update(update: Update, device: torch.device) -> TensorUpdate:
    """All its micro-batches."""
    return TensorUpdate([as_tensors(batch, device) for batch in update.batches], update.tokens)


def prefetch(items: Iterator[Any], load: Callable[[Any], Loaded], device: torch.device) -> Iterator[Loaded]:
    """Loaded items in order; for a GPU a thread loads the next ones meanwhile."""
    if device.type != "cuda":
        yield from map(load, items)
        return
    end = object()

    def load_next() -> Any:
        item = next(items, end)
        return end if item is end else load(item)

    with ThreadPoolExecutor(1, thread_name_prefix="lamina-batches") as thread:
        waiting: deque[Future[Any]] = deque(thread.submit(load_next) for _ in range(AHEAD))
        while (loaded := waiting.popleft().result()) is not end:
            waiting.append(thread.submit(load_next))
            yield loaded
