"""Loading of batches: as tensors in pinned memory, by a thread while the device computes."""

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

AHEAD = 2  # updates that wait for the device
FILLER = ([[2]], [[0]], [[2]])  # what a rank without a sentence computes, times 0: DDP wants every rank to take part

Loaded = TypeVar("Loaded")


@dataclass(frozen=True)
class TensorBatch:
    """A micro-batch as tensors on the host: source, prefix, target, and how much each target token counts, if not 1."""

    tensors: tuple[Tensor, Tensor, Tensor]
    tokens: int  # real target tokens; 0 for a filler
    importance: tuple[Tensor, ...] = ()  # one, or none

    @property
    def weight(self) -> float:
        """The sum of the importance of its tokens; without one, their number."""
        return sum((float(each.sum()) for each in self.importance), 0.0) if self.importance else float(self.tokens)

    def to(self, device: torch.device) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """Tensors and importance on the device; from pinned memory the copy is asynchronous."""
        tensors, importance = (
            tuple(tensor.to(device, non_blocking=True) for tensor in part) for part in (self.tensors, self.importance)
        )
        return tensors, importance


@dataclass(frozen=True)
class TensorUpdate:
    """What one optimizer step sees on one rank, and the target tokens that all ranks see together."""

    batches: list[TensorBatch]
    tokens: int
    weight: float  # the sum of their importance; without one, their number


def make_batches(recipe: Recipe, data: PreparedData, ranks: Ranks) -> tuple[Batches, Batches]:
    """Those of training, of which each rank has its share, and those of validation."""
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
    """Pinned if a GPU will want it."""
    arrays: Any = (batch.source, batch.prefix, batch.target) if len(batch.pairs) else FILLER
    tokens = batch.tokens if len(batch.pairs) else 0
    weights = () if batch.importance is None or not tokens else (batch.importance,)
    tensors = [torch.as_tensor(array) for array in (*arrays, *weights)]
    if device.type == "cuda":
        tensors = [tensor.pin_memory() for tensor in tensors]
    source, prefix, target, *importance = tensors
    return TensorBatch((source, prefix, target), tokens, tuple(importance))


def load_update(update: Update, device: torch.device) -> TensorUpdate:
    """All its micro-batches."""
    return TensorUpdate([as_tensors(batch, device) for batch in update.batches], update.tokens, update.weight)


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
