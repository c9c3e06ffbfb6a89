"""Batched beam search over anything that steps.

Ranking is by the plain sum of log p. Of the 2·beam best continuations, an eos among the first `beam` is finished at
once, and the first `beam` others go on, so the beam does not shrink. A source is done with `beam` finished hypotheses
or at its maximum length. Diverse groups are beams of their own that share a source.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lamina.model.states import LogProbs
from lamina.search.candidates import Candidates, best_candidates
from lamina.search.constraints import forbid_end, forbid_impossible, forbid_repeats, force_end, force_prefix
from lamina.search.settings import Hypothesis, SearchSettings
from lamina.search.stepper import Stepper
from lamina.text.vocabulary import EOS, PAD

SHARE_DONE = 16  # once a source in so many is done, the batch is cut to the others


def beam_search(
    stepper: Stepper,
    source_BS: Tensor,
    settings: SearchSettings,
    start_id: int,
    prefixes: Sequence[Sequence[int]] | None = None,
) -> list[list[Hypothesis]]:
    """The finished hypotheses of every source, best first."""
    search = _Search(source_BS, settings, prefixes)
    state = stepper.start(source_BS, settings.groups)  # at first all rows of a group are equal: one is enough
    tokens_R = torch.full((len(source_BS) * settings.groups,), start_id, device=source_BS.device)
    for position in count():
        log_probs, state = stepper.step(tokens_R, state)
        rows_R, tokens_R = search.advance(log_probs, position)
        if search.over:
            break
        state = stepper.reorder(state, rows_R)
        kept = search.cut()
        if kept is not None:
            state = stepper.keep(state, kept)
            tokens_R = tokens_R.view(-1, settings.beam)[kept].flatten()
    return search.results()


class _Search:
    """What is written, its sums, and what is finished; U units (source × group) of N rows each."""

    def __init__(self, source_BS: Tensor, settings: SearchSettings, prefixes: Sequence[Sequence[int]] | None) -> None:
        self.settings, self.device = settings, source_BS.device
        sources = len(source_BS)
        self.width = settings.beam // settings.groups
        self.numbers = np.arange(sources)  # of the sources still in the batch
        lengths = (source_BS != PAD).sum(dim=1).tolist()
        forced = [len(prefix) for prefix in prefixes] if prefixes is not None else [0] * sources
        limits = [max(settings.limit(length), least) for length, least in zip(lengths, forced, strict=True)]
        self.limits = np.array(limits, dtype=np.int64)
        self.written: NDArray[np.int64] = np.zeros((sources, settings.groups, 0), dtype=np.int64)
        self.total_BW = np.zeros((sources, settings.groups), dtype=np.float32)
        self.prefixes = list(prefixes) if prefixes is not None else None
        self.finished: list[list[list[Hypothesis]]] = [[[] for _ in range(settings.groups)] for _ in range(sources)]
        self.done = np.zeros(sources, dtype=bool)

    @property
    def over(self) -> bool:
        """Whether every source is done."""
        return bool(self.done.all())

    def advance(self, log_probs: LogProbs, position: int) -> tuple[Tensor, Tensor]:
        """Take one step's distributions; the rows that go on, and what each of them writes."""
        scores_BWV, normaliser_BW1 = log_probs.scores_BTV, log_probs.normaliser_BT1
        full_B = self.limits == position
        self._constrain(scores_BWV, normaliser_BW1, position, full_B)
        found = self._candidates(scores_BWV, normaliser_BW1)
        at_end_UN = found.token_BN == EOS
        going: tuple[Any, Any] = slice(None), slice(self.width)
        if at_end_UN.any():
            self._finish(found, at_end_UN)
            going = np.arange(len(at_end_UN))[:, None], at_end_UN.argsort(axis=1, kind="stable")[:, : self.width]
        shape = (len(self.numbers), self.settings.beam)
        total_BW, row_BW, token_BW = (part[going].reshape(shape) for part in found)
        source_B1 = np.arange(shape[0])[:, None]
        self.written = np.concatenate([self.written[source_B1, row_BW], token_BW[..., None]], axis=2)
        self.total_BW = total_BW
        self.done |= full_B
        row_R = (row_BW + source_B1 * scores_BWV.shape[1]).reshape(-1)
        return torch.as_tensor(row_R, device=self.device), torch.as_tensor(token_BW.reshape(-1), device=self.device)

    def cut(self) -> Tensor | None:
        """The sources to go on with, once enough are done; None to leave the batch as it is."""
        if self.done.sum() * SHARE_DONE < len(self.done) or not self.done.any():
            return None
        (kept,) = np.nonzero(~self.done)
        self.numbers, self.limits = self.numbers[kept], self.limits[kept]
        self.written, self.done = self.written[kept], self.done[kept]
        if self.prefixes is not None:
            self.prefixes = [self.prefixes[number] for number in kept]
        self.total_BW = self.total_BW[kept]
        return torch.as_tensor(kept, device=self.device)

    def results(self) -> list[list[Hypothesis]]:
        """By source, the best score first."""
        return [
            sorted((each for group in groups for each in group), key=lambda hypothesis: -hypothesis.score)
            for groups in self.finished
        ]

    def _constrain(self, scores_BWV: Tensor, normaliser_BW1: Tensor, position: int, full_B: NDArray[np.bool_]) -> None:
        forbid_impossible(scores_BWV, normaliser_BW1)
        if position < self.settings.min_length:
            forbid_end(scores_BWV)
        if self.settings.no_repeat_ngram:
            forbid_repeats(scores_BWV, self.written, self.settings.no_repeat_ngram)
        if self.prefixes is not None:
            force_prefix(scores_BWV, self.prefixes, position)
        if full_B.any():
            force_end(scores_BWV, np.nonzero(full_B)[0])

    def _candidates(self, scores_BWV: Tensor, normaliser_BW1: Tensor) -> Candidates:
        """The best 2·N of each unit, (U, 2N); a later group pays for what earlier ones would write."""
        if self.settings.groups == 1:
            return best_candidates(self.total_BW, scores_BWV, normaliser_BW1, 2 * self.width)
        groups: list[Candidates] = []
        rows = scores_BWV.shape[1] // self.settings.groups
        for group in range(self.settings.groups):
            own = slice(group * rows, (group + 1) * rows)
            total_BN, scores_BNV = self.total_BW[:, own], scores_BWV[:, own]
            if group:
                tokens = np.concatenate([before.token_BN[:, : self.width] for before in groups], axis=1)
                taken = torch.as_tensor(tokens, device=self.device)
                counts_BV = scores_BNV.new_zeros(scores_BNV[:, 0].shape)
                counts_BV.scatter_add_(1, taken, torch.ones_like(taken, dtype=counts_BV.dtype))
                scores_BNV = scores_BNV - self.settings.diversity * counts_BV[:, None]
            found = best_candidates(total_BN, scores_BNV, normaliser_BW1[:, own], 2 * self.width)
            groups.append(found._replace(row_BN=found.row_BN + group * rows))
        return Candidates(*(np.stack(parts, axis=1).reshape(-1, 2 * self.width) for parts in zip(*groups, strict=True)))

    def _finish(self, found: Candidates, at_end_UN: NDArray[np.bool_]) -> None:
        """Every eos among the first N ranks of a unit that has room."""
        for unit, rank in np.argwhere(at_end_UN[:, : self.width]).tolist():
            source, group = divmod(unit, self.settings.groups)
            groups, log_prob = self.finished[self.numbers[source]], float(found.total_BN[unit, rank])
            if self.done[source] or len(groups[group]) == self.width or log_prob == -np.inf:
                continue
            tokens = [*self.written[source, found.row_BN[unit, rank]].tolist(), EOS]
            groups[group].append(Hypothesis(tokens, log_prob, log_prob / len(tokens) ** self.settings.lenpen))
            self.done[source] = all(len(each) == self.width for each in groups)
