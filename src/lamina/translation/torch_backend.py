"""Decoding with torch, on any device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
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
from lamina.search.sampling import Sampler
from lamina.search.shortlist import Shortlist
from lamina.search.stepper import ShortlistStepper, Stepper, TorchStepper
from lamina.text.vocabulary import PAD
from lamina.translation.backends import NO_SHORTLIST_WITH_POINTER, NO_SHORTLIST_WITH_SAMPLING, Hypotheses, SourceBatch


class TorchBackend:
    """Decodes any model with torch, one batch at a time."""

    batches_at_once = 1

    def __init__(self, models: Sequence[Seq2Seq], shortlist: Shortlist | None = None) -> None:
        if shortlist is not None and any(isinstance(model.head, PointerHead) for model in models):
            raise UsageError(NO_SHORTLIST_WITH_POINTER)
        if shortlist is not None and any(isinstance(model.head, BiasedSoftmaxHead) for model in models):
            raise UsageError("A shortlist is not supported for head `softmax` with a bias; omit it.")
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
        allowed = shortlist.select(batch.sources, batch.prefixes)
        prefixes = batch.prefixes and [np.searchsorted(allowed, np.array(ids, int)).tolist() for ids in batch.prefixes]
        steppers = [ShortlistStepper(model, torch.as_tensor(allowed, device=self.device)) for model in self.models]
        stepper: Stepper = steppers[0] if len(steppers) == 1 else EnsembleStepper(steppers)
        found = beam_search(stepper, source_BS, settings, self.model.start_id, prefixes)
        return [
            [Hypothesis(allowed[each.tokens].tolist(), each.log_prob, each.score) for each in hypotheses]
            for hypotheses in found
        ]

    def sample(self, batch: SourceBatch, sampler: Sampler) -> Hypotheses:
        if self.shortlist is not None:
            raise UsageError(NO_SHORTLIST_WITH_SAMPLING)
        source_BS = pad_ids(batch.sources, self.device)
        with torch.inference_mode(), autocast(self.device, self.precision):
            return sampler(self.stepper, source_BS, self.model.start_id)

    def attention(self, source: Sequence[int], target: Sequence[int]) -> list[tuple[Tensor, ...]]:
        prefix = [self.model.start_id, *target[:-1]]
        with torch.inference_mode():
            layers = self.model.attention(pad_ids([source], self.device), pad_ids([prefix], self.device))
        return [tuple(stream[0].cpu() for stream in streams) for streams in layers]


def pad_ids(rows: Sequence[Sequence[int]], device: torch.device) -> Tensor:
    """Pad rows of token ids to equal length."""
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[PAD] * (longest - len(row))] for row in rows], device=device)
