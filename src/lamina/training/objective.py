"""The training objective: loss and gradients of one update."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from lamina.base.devices import Precision, autocast
from lamina.errors import LaminaError
from lamina.model.seq2seq import Seq2Seq
from lamina.model.states import Loss
from lamina.training.casting import cast_weights_together
from lamina.training.distributed import Ranks
from lamina.training.prefetch import TensorBatch, TensorUpdate
from lamina.training.statistics import Tally

NO_MEMORY = ("DefaultCPUAllocator", "not enough memory")  # torch has an out-of-memory error type for GPUs only


class Objective:
    """Label-smoothed loss of an update, normalised by the target tokens of all ranks and micro-batches.

    Thus two accumulated half batches, or two ranks with half a batch each, give the gradient of the whole batch.
    """

    def __init__(self, model: Seq2Seq, ranks: Ranks, smoothing: float, precision: Precision, compiled: bool) -> None:
        self.model, self.ranks, self.smoothing, self.precision = model, ranks, smoothing, precision
        self.parallel: nn.Module = model
        if ranks.count > 1:
            device_ids = [ranks.device.index] if ranks.device.type == "cuda" else None
            self.parallel = DistributedDataParallel(model, device_ids=device_ids, gradient_as_bucket_view=True)
        self.compute: Callable[..., Loss] = self.parallel
        if compiled:
            logging.getLogger("torch._dynamo").setLevel(logging.ERROR)  # verbose about graph breaks
            self.compute = torch.compile(self.parallel, dynamic=True)
        elif ranks.device.type == "cuda":
            cast_weights_together(model)

    def backward(self, update: TensorUpdate, scaler: Any, tally: Tally) -> None:
        """Accumulate the gradients of an update; ranks all-reduce them in the last micro-batch only."""
        for number, batch in enumerate(update.batches):
            last = number + 1 == len(update.batches)
            with self._sync_gradients(last), explain_memory(batch, self.ranks.device):
                tensors, importance = batch.to(self.ranks.device)
                with autocast(self.ranks.device, self.precision):
                    loss = self.compute(*tensors, self.smoothing, *importance)
                share = self.ranks.count / update.weight if batch.tokens else 0.0
                scaler.scale(loss.total * share).backward()
            if batch.tokens:
                tally.add(loss, batch.tokens, batch.weight)

    def _sync_gradients(self, last: bool) -> AbstractContextManager[Any]:
        if isinstance(self.parallel, DistributedDataParallel) and not last:
            return self.parallel.no_sync()
        return nullcontext()


@contextmanager
def explain_memory(batch: TensorBatch, device: torch.device) -> Iterator[None]:
    """Convert out-of-memory errors, forward or backward, into a message with the batch size and a remedy."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:  # torch.OutOfMemoryError is a RuntimeError
        out_of_memory = isinstance(error, MemoryError | torch.OutOfMemoryError)
        if not out_of_memory and not any(words in str(error) for words in NO_MEMORY):
            raise
        source, _, target = batch.tensors
        sizes = " × ".join(str(size) for size in target.shape)
        raise LaminaError(
            f"Out of memory on {device} in a batch of {sizes} target tokens (sources of up to {source.shape[1]} "
            "tokens). Halve train.batch_tokens and double train.accumulate (the same update, apart from dropout and "
            "rounding) and resume the run, or start a new run with train.gradient_checkpointing=true."
        ) from error


def encoder_gradient_norms(model: Seq2Seq) -> Tensor:
    """Gradient norm of each encoder layer, 0 if it is frozen, as a tensor on the device."""
    squares: dict[int, Tensor] = {}
    for name, parameter in model.named_parameters():
        if name.startswith("encoder.layers."):
            square = parameter.new_zeros(()) if parameter.grad is None else parameter.grad.square().sum()
            layer = int(name.split(".")[2])
            squares[layer] = squares.get(layer, 0) + square
    return torch.stack([squares[layer] for layer in sorted(squares)]).double().sqrt()


def first_bad_gradient(model: Seq2Seq) -> str | None:
    """Name of the first parameter, from the bottom up, with a non-finite gradient."""
    for name, parameter in model.named_parameters():
        if parameter.grad is not None and not bool(torch.isfinite(parameter.grad).all()):
            return name
    return None
