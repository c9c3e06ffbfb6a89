"""The interface between search and models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from lamina.model.decoder import DecoderCache
from lamina.model.seq2seq import ProjectedSource, Seq2Seq
from lamina.model.states import LogProbs, map_tensors


class Stepper(Protocol):
    """A model or ensemble that search can decode step by step.

    The rows (beams) of a source are adjacent, and every source has the same number of them.
    """

    def start(self, source_BS: Tensor, rows: int) -> Any:
        """Encode sources; return the state before the first token, with `rows` equal rows for each source."""

    def step(self, tokens_R: Tensor, state: Any) -> tuple[LogProbs, Any]:
        """Read one token in every row; return the distributions (B, W, V) and the new state. A state is used once."""

    def reorder(self, state: Any, rows_R: Tensor) -> Any:
        """Replace row i by row `rows_R[i]` of the same source; rows may repeat, and their number may change."""

    def keep(self, state: Any, sources: Tensor) -> Any:
        """Keep only these sources."""


@dataclass(frozen=True)
class TorchState:
    """The memory of the sources and the decoder's cache."""

    memory: ProjectedSource
    cache: DecoderCache


class ShortlistStepper:
    """A model restricted to a shortlist; tokens are indices into the shortlist."""

    def __init__(self, model: Seq2Seq, words_V: Tensor) -> None:
        self.model, self.words_V = model, words_V
        self.stepper = TorchStepper(model)
        self.rows_VD = model.head.weight_VD.detach()[words_V]

    def start(self, source_BS: Tensor, rows: int) -> TorchState:
        return self.stepper.start(source_BS, rows)

    def step(self, tokens_R: Tensor, state: TorchState) -> tuple[LogProbs, TorchState]:
        self.model.head.shortlist_VD = self.rows_VD
        try:
            return self.stepper.step(self.words_V[tokens_R], state)
        finally:
            self.model.head.shortlist_VD = None

    def reorder(self, state: TorchState, rows_R: Tensor) -> TorchState:
        return self.stepper.reorder(state, rows_R)

    def keep(self, state: TorchState, sources: Tensor) -> TorchState:
        return self.stepper.keep(state, sources)


class TorchStepper:
    """One model on any device; keys and values of a memory are stored once per source, not per beam."""

    def __init__(self, model: Seq2Seq) -> None:
        self.model = model

    def start(self, source_BS: Tensor, rows: int) -> TorchState:
        memory = self.model.project_source(source_BS)
        return TorchState(memory, self.model.start(memory, rows))

    def step(self, tokens_R: Tensor, state: TorchState) -> tuple[LogProbs, TorchState]:
        log_probs, cache = self.model.step(tokens_R, state.memory, state.cache)
        return log_probs, TorchState(state.memory, cache)

    def reorder(self, state: TorchState, rows_R: Tensor) -> TorchState:
        return TorchState(state.memory, state.cache.reorder(rows_R))

    def keep(self, state: TorchState, sources: Tensor) -> TorchState:
        return map_tensors(lambda x: x.index_select(0, sources), state)
