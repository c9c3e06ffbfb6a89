"""Decoding backends: the CPU engine if it supports the model, otherwise torch on any device.

The engine's beam search does not need torch, so this module imports torch lazily.
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

Hypotheses = list[list[Hypothesis]]  # per source, best first
NO_SHORTLIST_WITH_POINTER = "A shortlist is not supported for head `pointer`, which copies any token; omit it."
NO_SHORTLIST_WITH_SAMPLING = "A shortlist applies only to beam search; omit it to sample."


@dataclass(frozen=True)
class SourceBatch:
    """Sources to decode in one batch, with optional target prefixes."""

    sources: Sequence[Sequence[int]]
    prefixes: Sequence[Sequence[int]] | None = None


class Backend(Protocol):
    """Decodes batches of token ids."""

    @property
    def batches_at_once(self) -> int:
        """Number of batches decoded in parallel."""

    def search(self, batches: Sequence[SourceBatch], settings: SearchSettings) -> Iterator[Hypotheses]:
        """Beam search, batch by batch, in order."""

    def sample(self, batch: SourceBatch, sampler: Sampler) -> Hypotheses:
        """Draw samples for each source of a batch."""

    def attention(self, source: Sequence[int], target: Sequence[int]) -> list[tuple[Tensor, ...]]:
        """Cross-attention of the first model under teacher forcing: per decoder layer and stream, (heads, target,
        source).
        """


def choose_backend(
    models: Sequence[Seq2Seq], int8: bool = False, shortlist: Shortlist | None = None
) -> tuple[Backend, list[str]]:
    """Choose the fastest backend for these models; also return notes for the user."""
    from lamina.engine.compilation import make_engine
    from lamina.engine.lowering.parts import UnsupportedModule
    from lamina.translation.torch_backend import TorchBackend

    if models[0].head.weight_VD.device.type == "cpu":
        try:
            return EngineBackend(make_engine(models, int8), shortlist), []
        except UnsupportedModule as reason:
            if int8:
                raise UsageError(f"int8 needs the CPU engine, which does not support {reason}.") from None
            return TorchBackend(models, shortlist), [
                f"the CPU engine does not support {reason}; decoding with torch, which is slower."
            ]
    if int8:
        raise UsageError("int8 is only for decoding on a CPU.")
    return TorchBackend(models, shortlist), []


class EngineBackend:
    """The CPU engine with as many threads as torch; all threads share the weights."""

    def __init__(self, engine: Engine, shortlist: Shortlist | None = None) -> None:
        if shortlist is not None and engine.lowered.copies:
            raise UsageError(NO_SHORTLIST_WITH_POINTER)
        self.engine, self.shortlist = engine, shortlist
        self._pool: ThreadPoolExecutor | None = None
        self._pool_key = (0, 0)  # number of threads and process id: threads do not survive a fork

    @property
    def batches_at_once(self) -> int:
        return thread_count()

    def search(self, batches: Sequence[SourceBatch], settings: SearchSettings) -> Iterator[Hypotheses]:
        """Beam search on the thread pool; closing the iterator early (Ctrl-C, an error) stops running searches."""
        stops = [np.zeros(len(batch.sources), np.int64) for batch in batches]
        futures: list[Future[Hypotheses]] = []
        try:
            if min(len(batches), self.batches_at_once) < 2:
                for batch, stop in zip(batches, stops, strict=True):
                    yield self._search(batch, settings, stop)
                return
            pool = self._thread_pool()
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
        if self.shortlist is not None:
            raise UsageError(NO_SHORTLIST_WITH_SAMPLING)
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

    def _thread_pool(self) -> ThreadPoolExecutor:
        key = (self.batches_at_once, os.getpid())
        if self._pool is None or self._pool_key != key:
            self._pool, self._pool_key = ThreadPoolExecutor(key[0], thread_name_prefix="lamina-engine"), key
        return self._pool
