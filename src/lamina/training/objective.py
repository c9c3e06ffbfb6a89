"""One update: micro-batches in, gradients out, and what is to be known about them."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import astuple, dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from lamina.corpus.batches import Batch, Update
from lamina.errors import LaminaError
from lamina.model.seq2seq import Seq2Seq
from lamina.model.states import Loss
from lamina.training.distributed import Ranks


@dataclass
class Window:
    """Sums over the updates since the last log line, on this rank."""

    loss: float = 0.0
    nll: float = 0.0
    tokens: int = 0
    weight: float = 0.0  # what the loss is divided by: the tokens, each by its importance

    def add(self, loss: Loss, weight: float | None = None) -> None:
        """Count one micro-batch; without a `weight` every token counts 1."""
        self.loss += float(loss.total.detach())
        self.nll += float(loss.nll_BT.sum())
        self.tokens += loss.tokens
        self.weight += loss.tokens if weight is None else weight

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


class Objective:
    """The smoothed loss of an update, normalised by the target tokens that all ranks and turns see together.

    So accumulating twice half a batch, or two ranks with half a batch each, give the gradient of one whole batch.
    """

    def __init__(
        self, model: Seq2Seq, ranks: Ranks, smoothing: float, precision: torch.dtype | None, compiled: bool
    ) -> None:
        self.model, self.ranks, self.smoothing, self.precision = model, ranks, smoothing, precision
        self.parallel: nn.Module = model
        if ranks.count > 1:
            places = [ranks.device.index] if ranks.device.type == "cuda" else None
            self.parallel = DistributedDataParallel(model, device_ids=places)
        self.compute: Callable[..., Loss] = self.parallel
        if compiled:
            logging.getLogger("torch._dynamo").setLevel(logging.ERROR)  # it tells at length what it leaves uncompiled
            self.compute = torch.compile(self.parallel, dynamic=True)

    def backward(self, update: Update, scaler: Any, window: Window) -> None:
        """Add the gradients of an update; ranks exchange them at its last micro-batch only."""
        for number, batch in enumerate(update.batches):
            last = number + 1 == len(update.batches)
            with self._local(last):
                loss = self._loss(batch)
                share = self.ranks.count / update.weight if len(batch.pairs) else 0.0
                scaler.scale(loss.total * share).backward()
            if len(batch.pairs):
                window.add(loss, None if batch.importance is None else float(batch.importance.sum()))

    def _loss(self, batch: Batch) -> Loss:
        arrays = (batch.source, batch.prefix, batch.target) if len(batch.pairs) else FILLER
        tensors = [torch.as_tensor(array, device=self.ranks.device) for array in arrays]
        weights = batch.importance if len(batch.pairs) else None
        importance = () if weights is None else (torch.as_tensor(weights, device=self.ranks.device),)
        try:
            with self._autocast():
                return self.compute(*tensors, self.smoothing, *importance)
        except (torch.OutOfMemoryError, MemoryError) as error:
            sizes = " × ".join(str(size) for size in batch.target.shape)
            raise LaminaError(
                f"Out of memory in a batch of {sizes} target tokens (sources up to {batch.source.shape[1]}). Use a "
                "smaller train.batch_tokens and a larger train.accumulate; the result is the same."
            ) from error

    def _local(self, last: bool) -> AbstractContextManager[Any]:
        if isinstance(self.parallel, DistributedDataParallel) and not last:
            return self.parallel.no_sync()
        return nullcontext()

    def _autocast(self) -> AbstractContextManager[Any]:
        if self.precision is None:
            return nullcontext()
        return torch.autocast(self.ranks.device.type, self.precision)


FILLER = ([[2]], [[0]], [[2]])  # what a rank without a sentence computes, times 0: DDP wants every rank to take part


def encoder_gradient_norms(model: Seq2Seq) -> list[float]:
    """One per encoder layer, from the names of the parameters."""
    squares: dict[int, Tensor] = {}
    for name, parameter in model.named_parameters():
        if name.startswith("encoder.layers.") and parameter.grad is not None:
            layer = int(name.split(".")[2])
            squares[layer] = squares.get(layer, parameter.new_zeros(())) + parameter.grad.square().sum()
    return [math.sqrt(float(squares[layer])) for layer in sorted(squares)]


def first_bad_gradient(model: Seq2Seq) -> str | None:
    """The first parameter, from the bottom up, whose gradient is not finite."""
    for name, parameter in model.named_parameters():
        if parameter.grad is not None and not bool(torch.isfinite(parameter.grad).all()):
            return name
    return None
