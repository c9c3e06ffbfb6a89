"""Batch loading: tensors in pinned memory, prefetched by a thread while the device computes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from lamina.corpus.batches import Batch, Batches, Update
from lamina.corpus.prepared import PreparedData
from lamina.corpus.word_dropout import WordDropout
from lamina.recipe.schema import Recipe
from lamina.training.distributed import Ranks

AHEAD = 2  # prefetched updates
FILLER = ([[2]], [[0]], [[2]])  # batch with weight 0 for a rank without sentences: DDP needs every rank to take part

Loaded = TypeVar("Loaded")


@dataclass(frozen=True)
class TensorBatch:
    """A micro-batch in host memory: source, prefix, target, and optionally the weight of each target token."""

    tensors: tuple[Tensor, Tensor, Tensor]
    tokens: int  # target tokens without padding; 0 for a filler
    importance: tuple[Tensor, ...] = ()  # at most one: weights of target tokens

    @property
    def weight(self) -> float:
        """Sum of the token weights, or the number of tokens if there are none."""
        return sum((float(each.sum()) for each in self.importance), 0.0) if self.importance else float(self.tokens)

    def to(self, device: torch.device) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """Copy tensors and importance to the device, asynchronously from pinned memory."""
        tensors, importance = (
            tuple(tensor.to(device, non_blocking=True) for tensor in part) for part in (self.tensors, self.importance)
        )
        return tensors, importance


@dataclass(frozen=True)
class TensorUpdate:
    """Micro-batches of one optimizer step on one rank, with target tokens and weight summed over all ranks."""

    batches: list[TensorBatch]
    tokens: int
    weight: float  # sum of the token weights, or `tokens` if there are none


def make_batches(recipe: Recipe, data: PreparedData, ranks: Ranks) -> tuple[Batches, Batches]:
    """Make the training batches, sharded over ranks, and the validation batches."""
    train, start_id = recipe.train, recipe.model.start_id
    multiple = 8 if ranks.device.type == "cuda" else 1
    rate = train.source_word_dropout
    batches = Batches(
        data.split("train", verify=True),
        train.batch_tokens,
        accumulate=train.accumulate,
        ranks=ranks.count,
        rank=ranks.rank,
        seed=train.seed,
        start_id=start_id,
        edit_weight=train.edit_weight,
        word_dropout=WordDropout(data.text, rate, train.seed) if rate else None,
        multiple=multiple,
    )
    valid = Batches(data.split("valid", verify=True), train.batch_tokens, start_id=start_id, multiple=multiple)
    return batches, valid


def as_tensors(batch: Batch, device: torch.device) -> TensorBatch:
    """Convert a batch to tensors, pinned for a GPU."""
    arrays: Any = (batch.source, batch.prefix, batch.target) if len(batch.pairs) else FILLER
    tokens = batch.tokens if len(batch.pairs) else 0
    weights = () if batch.importance is None or not tokens else (batch.importance,)
    tensors = [torch.as_tensor(array) for array in (*arrays, *weights)]
    if device.type == "cuda":
        tensors = [tensor.pin_memory() for tensor in tensors]
    source, prefix, target, *importance = tensors
    return TensorBatch((source, prefix, target), tokens, tuple(importance))


def load_update(update: Update, device: torch.device) -> TensorUpdate:
    """Convert all micro-batches of an update to tensors."""
    return TensorUpdate([as_tensors(batch, device) for batch in update.batches], update.tokens, update.weight)


def prefetch(items: Iterator[Any], load: Callable[[Any], Loaded], device: torch.device) -> Iterator[Loaded]:
    """Yield loaded items in order; for a GPU, a thread loads ahead."""
    if device.type != "cuda":
        yield from map(load, items)
        return
    end = object()

    def load_next() -> Any:
        item = next(items, end)
        return end if item is end else load(item)

    with ThreadPoolExecutor(1, thread_name_prefix="lamina-batches") as thread:
        pending: deque[Future[Any]] = deque(thread.submit(load_next) for _ in range(AHEAD))
        while (loaded := pending.popleft().result()) is not end:
            pending.append(thread.submit(load_next))
            yield loaded
