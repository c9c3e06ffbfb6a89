"""Decoding backends: the CPU engine if it supports the model, otherwise torch, on any device.

Beam search by the engine needs no torch, so this module imports it only where it is used.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from lamina.base.threads import thread_count
from lamina.errors import UsageError
from lamina.recipe.decode import SearchSettings
from lamina.search.hypothesis import Hypothesis
from lamina.search.shortlist import Shortlist

if TYPE_CHECKING:
    from torch import Tensor

    from lamina.engine.engine import Engine
    from lamina.model.seq2seq import Seq2Seq
    from lamina.search.sampling import Sampler

Hypotheses = list[list[Hypothesis]]  # of every source, best first
COPIES = "--shortlist: not supported for head `pointer`, which copies any token; omit it."


@dataclass(frozen=True)
class SourceBatch:
    """Sources that are decoded together, and what their targets must start with."""

    sources: Sequence[Sequence[int]]
    prefixes: Sequence[Sequence[int]] | None = None


class Backend(Protocol):
    """Decodes batches of token ids."""

    @property
    def batches_at_once(self) -> int:
        """Batches that it works on at the same time."""

    def search(self, batches: Sequence[SourceBatch], settings: SearchSettings) -> Iterator[Hypotheses]:
        """Beam search, batch by batch, in order."""

    def sample(self, batch: SourceBatch, sampler: Sampler) -> Hypotheses:
        """Samples of every source."""

    def attention(self, source: Sequence[int], target: Sequence[int]) -> list[tuple[Tensor, ...]]:
        """What every decoder layer of the first model attends to in each stream, (heads, target, source), before it
        writes each token of the target.
        """


def choose_backend(
    models: Sequence[Seq2Seq], int8: bool = False, shortlist: Shortlist | None = None
) -> tuple[Backend, list[str]]:
    """The fastest backend for these models, and notes for the user."""
    from lamina.engine.compilation import make_engine
    from lamina.engine.lowering.parts import UnsupportedModule
    from lamina.translation.torch_backend import TorchBackend

    if models[0].head.weight_VD.device.type == "cpu":
        try:
            return EngineBackend(make_engine(models, int8), shortlist), []
        except UnsupportedModule as reason:
            if int8:
                raise UsageError(f"--int8 needs the CPU engine, which does not support {reason}.") from None
            return TorchBackend(models, shortlist), [
                f"the CPU engine does not support {reason}; decoding with torch, which is slower."
            ]
    if int8:
        raise UsageError("--int8 is only for decoding on a CPU.")
    return TorchBackend(models, shortlist), []


class EngineBackend:
    """The CPU engine, with one thread for each of torch's; they share the weights."""

    def __init__(self, engine: Engine, shortlist: Shortlist | None = None) -> None:
        if shortlist is not None and engine.lowered.copies:
            raise UsageError(COPIES)
        self.engine, self.shortlist = engine, shortlist
        self._pool: ThreadPoolExecutor | None = None
        self._pool_of = (0, 0)  # its threads, and the process that made it: threads do not survive a fork

    @property
    def batches_at_once(self) -> int:
        return thread_count()

    def search(self, batches: Sequence[SourceBatch], settings: SearchSettings) -> Iterator[Hypotheses]:
        """When the caller stops iterating (Ctrl-C, an error), running searches end at their next step."""
        stops = [np.zeros(len(batch.sources), np.int64) for batch in batches]
        futures: list[Future[Hypotheses]] = []
        try:
            if min(len(batches), self.batches_at_once) < 2:
                for batch, stop in zip(batches, stops, strict=True):
                    yield self._search(batch, settings, stop)
                return
            pool = self._threads()
            futures = [
                pool.submit(self._search, batch, settings, stop) for batch, stop in zip(batches, stops, strict=True)
            ]
            for future in futures:
                yield future.result()
        finally:
            for stop in stops:
                stop[:] = 1
            for future in futures:
                future.cancel()

    def _search(self, batch: SourceBatch, settings: SearchSettings, stop: NDArray[np.int64]) -> Hypotheses:
        words = None if self.shortlist is None else self.shortlist.select(batch.sources, batch.prefixes)
        return self.engine.search(batch.sources, settings, batch.prefixes, stop, words)

    def sample(self, batch: SourceBatch, sampler: Sampler) -> Hypotheses:
        import torch

        from lamina.engine.stepper import EngineStepper
        from lamina.translation.torch_backend import pad_ids

        source_BS, stepper = pad_ids(batch.sources, torch.device("cpu")), EngineStepper(self.engine)
        with torch.inference_mode():
            return sampler(stepper, source_BS, self.engine.start_id)

    def attention(self, source: Sequence[int], target: Sequence[int]) -> list[tuple[Tensor, ...]]:
        import torch

        layers = self.engine.attention(source, [self.engine.start_id, *target[:-1]])
        return [tuple(torch.from_numpy(stream) for stream in streams) for streams in layers]

    def _threads(self) -> ThreadPoolExecutor:
        wanted = (self.batches_at_once, os.getpid())
        if self._pool is None or self._pool_of != wanted:
            self._pool, self._pool_of = ThreadPoolExecutor(wanted[0], thread_name_prefix="lamina-engine"), wanted
        return self._pool
