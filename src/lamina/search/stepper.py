"""What search asks of a model: start, step, reorder, keep."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from lamina.model.decoder import DecoderCache
from lamina.model.seq2seq import ProjectedSource, Seq2Seq
from lamina.model.states import LogProbs, map_tensors


class Stepper(Protocol):
    """Anything that can be searched: a model, an ensemble, a forced prefix.

    The rows (beams) of a source are adjacent, and every source has the same number of them.
    """

    def start(self, source_BS: Tensor, rows: int) -> Any:
        """The state before the first token, with `rows` equal rows for each source."""

    def step(self, tokens_R: Tensor, state: Any) -> tuple[LogProbs, Any]:
        """Each row's distribution after one more token, (B, W, V), and the new state; a state is stepped once."""

    def reorder(self, state: Any, rows_R: Tensor) -> Any:
        """The state whose row i is row `rows_R[i]` of this one; they may repeat within their source, and be more."""

    def keep(self, state: Any, sources: Tensor) -> Any:
        """The state of these sources only."""


@dataclass(frozen=True)
class TorchState:
    """A model's memory of its sources and its cache of what has been written."""

    memory: ProjectedSource
    cache: DecoderCache


class ShortlistStepper:
    """A model whose vocabulary is a shortlist; tokens in and out are numbers of its entries."""

    def __init__(self, model: Seq2Seq, words_V: Tensor) -> None:
        self.model, self.words_V = model, words_V
        self.stepper = TorchStepper(model)
        self.rows_VD = model.head.weight_VD.detach()[words_V]

    def start(self, source_BS: Tensor, rows: int) -> TorchState:
        """Encode the sources."""
        return self.stepper.start(source_BS, rows)

    def step(self, tokens_R: Tensor, state: TorchState) -> tuple[LogProbs, TorchState]:
        """Read one more token in every row."""
        self.model.head.shortlist_VD = self.rows_VD
        try:
            return self.stepper.step(self.words_V[tokens_R], state)
        finally:
            self.model.head.shortlist_VD = None

    def reorder(self, state: TorchState, rows_R: Tensor) -> TorchState:
        """As the model's."""
        return self.stepper.reorder(state, rows_R)

    def keep(self, state: TorchState, sources: Tensor) -> TorchState:
        """As the model's."""
        return self.stepper.keep(state, sources)


class TorchStepper:
    """One model, on any device. Keys and values of a memory are computed once per source, never copied per beam."""

    def __init__(self, model: Seq2Seq) -> None:
        self.model = model

    def start(self, source_BS: Tensor, rows: int) -> TorchState:
        """Encode the sources."""
        memory = self.model.project_source(source_BS)
        return TorchState(memory, self.model.start(memory, rows))

    def step(self, tokens_R: Tensor, state: TorchState) -> tuple[LogProbs, TorchState]:
        """Read one more token in every row."""
        log_probs, cache = self.model.step(tokens_R, state.memory, state.cache)
        return log_probs, TorchState(state.memory, cache)

    def reorder(self, state: TorchState, rows_R: Tensor) -> TorchState:
        """Map what the cache has per row; the memory has none."""
        return TorchState(state.memory, state.cache.reorder(rows_R))

    def keep(self, state: TorchState, sources: Tensor) -> TorchState:
        """Map memory and cache, which both are by source."""
        return map_tensors(lambda x: x.index_select(0, sources), state)
