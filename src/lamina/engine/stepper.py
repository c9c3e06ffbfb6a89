"""The engine behind the `Stepper` protocol, for sampling and other step-by-step decoding."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lamina.engine.encoded import EncodedSources
from lamina.engine.engine import Engine, check_ids
from lamina.model.states import LogProbs
from lamina.text.vocabulary import PAD

Int32 = NDArray[np.int32]


@dataclass(frozen=True)
class EngineState:
    """The state of step-by-step decoding."""

    encoded: EncodedSources  # encoded sources
    sources: NDArray[np.int64]  # indices of the remaining ones
    past: Int32  # (B, W, T): cache rows of each row's prefix


class EngineStepper:
    """One model or an ensemble, step by step."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def start(self, source_BS: Tensor, rows: int) -> EngineState:
        """Encode the sources."""
        sources = [[token for token in source if token != PAD] for source in source_BS.tolist()]
        encoded = self.engine.encode_sources(sources)
        return EngineState(encoded, np.arange(len(sources)), np.zeros((len(sources), rows, 0), np.int32))

    def step(self, tokens_R: Tensor, state: EngineState) -> tuple[LogProbs, EngineState]:
        """Read one more token in every row."""
        batch, rows, position = state.past.shape
        count = batch * rows
        check_ids("target", tokens_R.numpy(), self.engine.vocabulary)
        cache_rows = state.encoded.reserve(count)
        past = np.concatenate([state.past, cache_rows.reshape(batch, rows, 1)], axis=2)
        sources = state.sources.repeat(rows)
        positions = np.full(count, position)
        state.encoded.run(tokens_R.numpy(), positions, cache_rows, sources, past.reshape(count, -1))
        scores, normaliser = (
            torch.from_numpy(part.copy()).view(batch, rows, -1) for part in state.encoded.distribution(count)
        )
        return LogProbs(scores, normaliser), replace(state, past=past)

    def reorder(self, state: EngineState, rows_R: Tensor) -> EngineState:
        """Reorder the rows' prefixes; keys and values do not move."""
        batch, _, length = state.past.shape
        past = state.past.reshape(-1, length)[rows_R.numpy()].reshape(batch, len(rows_R) // max(1, batch), length)
        return replace(state, past=past)

    def keep(self, state: EngineState, sources: Tensor) -> EngineState:
        """Keep only these sources."""
        kept = sources.numpy()
        return replace(state, sources=state.sources[kept], past=state.past[kept])
