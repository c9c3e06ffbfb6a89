"""What decodes: the CPU engine where it knows the model, else torch, on any device."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lamina.base.devices import autocast, choose_precision
from lamina.errors import UsageError
from lamina.model.heads.pointer import PointerHead
from lamina.model.heads.softmax import BiasedSoftmaxHead
from lamina.model.seq2seq import Seq2Seq
from lamina.recipe.decode import SearchSettings
from lamina.search.beam import beam_search
from lamina.search.ensemble import EnsembleStepper
from lamina.search.hypothesis import Hypothesis
from lamina.search.sampling import SamplingSettings, sample
from lamina.search.shortlist import Shortlist
from lamina.search.stepper import ShortlistStepper, Stepper, TorchStepper
from lamina.text.vocabulary import PAD

if TYPE_CHECKING:
    from lamina.engine.engine import Engine

Hypotheses = list[list[Hypothesis]]  # of every source, best first


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

    def sample(
        self,
        batch: SourceBatch,
        settings: SearchSettings,
        sampling: SamplingSettings,
        generator: torch.Generator,
        samples: int,
    ) -> Hypotheses:
        """Samples of every source."""

    def attention(self, source: Sequence[int], prefix: Sequence[int]) -> list[tuple[Tensor, ...]]:
        """What every decoder layer of the first model attends to in each stream, (heads, prefix, source)."""


def choose_backend(
    models: Sequence[Seq2Seq], int8: bool = False, shortlist: Shortlist | None = None
) -> tuple[Backend, list[str]]:
    """The fastest backend for these models, and notes for the user."""
    from lamina.engine.compilation import make_engine
    from lamina.engine.lowering.parts import UnsupportedModule

    if shortlist is not None and any(isinstance(model.head, PointerHead) for model in models):
        raise UsageError("--shortlist: head `pointer` copies any entry of the vocabulary; omit it.")
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
        raise UsageError("--int8 is for decoding on a CPU.")
    return TorchBackend(models, shortlist), []


class TorchBackend:
    """Any model that torch runs, on any device, one batch after another."""

    batches_at_once = 1

    def __init__(self, models: Sequence[Seq2Seq], shortlist: Shortlist | None = None) -> None:
        odd = [type(model.head).__name__ for model in models if isinstance(model.head, BiasedSoftmaxHead)]
        if shortlist is not None and odd:
            raise UsageError("--shortlist: head `softmax` with a bias has a row for every entry; omit it.")
        self.models, self.shortlist = models, shortlist
        self.model = models[0]
        self.device = self.model.head.weight_VD.device
        self.precision = choose_precision("auto", self.device)
        steppers = [TorchStepper(model) for model in models]
        self.stepper: Stepper = steppers[0] if len(steppers) == 1 else EnsembleStepper(steppers)

    def search(self, batches: Sequence[SourceBatch], settings: SearchSettings) -> Iterator[Hypotheses]:
        for batch in batches:
            source_BS = pad_ids(batch.sources, self.device)
            with torch.inference_mode(), autocast(self.device, self.precision):
                if self.shortlist is None:
                    found = beam_search(self.stepper, source_BS, settings, self.model.start_id, batch.prefixes)
                else:
                    found = self._search_shortlist(self.shortlist, batch, source_BS, settings)
            yield found

    def _search_shortlist(
        self, shortlist: Shortlist, batch: SourceBatch, source_BS: Tensor, settings: SearchSettings
    ) -> Hypotheses:
        words = shortlist.select(batch.sources, batch.prefixes)
        prefixes = batch.prefixes and [np.searchsorted(words, np.array(each, int)).tolist() for each in batch.prefixes]
        steppers = [ShortlistStepper(model, torch.as_tensor(words, device=self.device)) for model in self.models]
        stepper: Stepper = steppers[0] if len(steppers) == 1 else EnsembleStepper(steppers)
        found = beam_search(stepper, source_BS, settings, self.model.start_id, prefixes)
        return [
            [Hypothesis(words[each.tokens].tolist(), each.log_prob, each.score) for each in hypotheses]
            for hypotheses in found
        ]

    def sample(
        self,
        batch: SourceBatch,
        settings: SearchSettings,
        sampling: SamplingSettings,
        generator: torch.Generator,
        samples: int,
    ) -> Hypotheses:
        source_BS = pad_ids(batch.sources, self.device)
        with torch.inference_mode(), autocast(self.device, self.precision):
            return sample(self.stepper, source_BS, settings, sampling, self.model.start_id, generator, samples)

    def attention(self, source: Sequence[int], prefix: Sequence[int]) -> list[tuple[Tensor, ...]]:
        with torch.inference_mode():
            layers = self.model.attention(pad_ids([source], self.device), pad_ids([prefix], self.device))
        return [tuple(stream[0].cpu() for stream in streams) for streams in layers]


class EngineBackend:
    """The CPU engine, with one thread for each of torch's; they share the weights."""

    def __init__(self, engine: Engine, shortlist: Shortlist | None = None) -> None:
        from lamina.engine.stepper import EngineStepper

        self.engine, self.stepper = engine, EngineStepper(engine)
        self.shortlist = shortlist
        self._pool: ThreadPoolExecutor | None = None
        self._pool_of = (0, 0)  # its threads, and the process that made it: threads do not survive a fork

    @property
    def batches_at_once(self) -> int:
        return torch.get_num_threads()

    def search(self, batches: Sequence[SourceBatch], settings: SearchSettings) -> Iterator[Hypotheses]:
        """When the caller stops listening (Ctrl-C, an error), whatever is under way ends at its next step."""
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

    def sample(
        self,
        batch: SourceBatch,
        settings: SearchSettings,
        sampling: SamplingSettings,
        generator: torch.Generator,
        samples: int,
    ) -> Hypotheses:
        source_BS = pad_ids(batch.sources, torch.device("cpu"))
        with torch.inference_mode():
            return sample(self.stepper, source_BS, settings, sampling, self.engine.start_id, generator, samples)

    def attention(self, source: Sequence[int], prefix: Sequence[int]) -> list[tuple[Tensor, ...]]:
        layers = self.engine.attention(source, prefix)
        return [tuple(torch.from_numpy(stream) for stream in streams) for streams in layers]

    def _threads(self) -> ThreadPoolExecutor:
        wanted = (self.batches_at_once, os.getpid())
        if self._pool is None or self._pool_of != wanted:
            self._pool, self._pool_of = ThreadPoolExecutor(wanted[0], thread_name_prefix="lamina-engine"), wanted
        return self._pool


def pad_ids(rows: Sequence[Sequence[int]], device: torch.device) -> Tensor:
    """Rows of one length."""
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[PAD] * (longest - len(row))] for row in rows], device=device)
