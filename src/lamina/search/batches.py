"""The search of one batch of sources, with everything that it needs at hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from lamina.model.seq2seq import Seq2Seq
from lamina.search.beam import beam_search
from lamina.search.ensemble import EnsembleStepper
from lamina.search.sampling import SamplingSettings, sample
from lamina.search.settings import Hypothesis, SearchSettings
from lamina.search.stepper import ModelStepper, Stepper
from lamina.search.workers import threads_for
from lamina.text.vocabulary import PAD


@dataclass(frozen=True)
class Batch:
    """Sources of like length, and what is wanted of them."""

    sources: Sequence[Sequence[int]]
    settings: SearchSettings
    prefixes: Sequence[Sequence[int]] | None = None
    sampling: SamplingSettings | None = None


class BatchSearch:
    """The search of one batch."""

    def __init__(self, models: Sequence[Seq2Seq]) -> None:
        self.model = models[0]
        self.device = self.model.head.weight_VD.device
        steppers = [ModelStepper(model) for model in models]
        self.stepper: Stepper = steppers[0] if len(steppers) == 1 else EnsembleStepper(steppers)

    def __call__(self, batch: Batch, generator: torch.Generator | None = None) -> list[list[Hypothesis]]:
        """The hypotheses of every source, best first; samples are drawn with the generator."""
        source_BS, start = pad(batch.sources, self.device), self.model.start_id
        work = len(batch.sources) * batch.settings.beam * self.model.head.weight_VD.numel()
        with torch.inference_mode(), threads_for(work):
            if batch.sampling is None:
                return beam_search(self.stepper, source_BS, batch.settings, start, batch.prefixes)
            assert generator is not None
            return sample(self.stepper, source_BS, batch.settings, batch.sampling, start, generator)


def pad(rows: Sequence[Sequence[int]], device: torch.device) -> Tensor:
    """Rows of one length."""
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[PAD] * (longest - len(row))] for row in rows], device=device)
