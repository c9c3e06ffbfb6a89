"""Batched beam search over anything that steps.

Ranking is by the plain sum of log p. Of the 2·beam best continuations, an eos among the first `beam` is finished at
once, and the first `beam` others go on, so the beam does not shrink. A source is done with `beam` finished hypotheses
or at its maximum length. Diverse groups are beams of their own that share a source.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

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
        self._constrain(scores_BWV, normaliser_BW1, position)
        totals, rows, tokens = self._candidates(scores_BWV, normaliser_BW1)
        at_end = tokens == EOS
        if at_end.any():
            self._finish(totals, rows, at_end, position)
            sources, groups = np.ogrid[: len(tokens), : self.settings.groups]
            going = sources[..., None], groups[..., None], at_end.argsort(axis=2, kind="stable")[..., : self.width]
            totals, rows, tokens = totals[going], rows[going], tokens[going]
        else:
            first = slice(self.width)
            totals, rows, tokens = totals[..., first], rows[..., first], tokens[..., first]
        shape = (len(self.numbers), self.settings.beam)
        rows, tokens = rows.reshape(shape), tokens.reshape(shape)
        source_B1 = np.arange(shape[0])[:, None]
        self.written = np.concatenate([self.written[source_B1, rows], tokens[..., None]], axis=2)
        self.total_BW = totals.reshape(shape)
        flat = rows + source_B1 * scores_BWV.shape[1]
        self.done |= self.limits[self.numbers] == position
        return (torch.as_tensor(part.reshape(-1), device=self.device) for part in (flat, tokens))  # type: ignore[return-value]

    def cut(self) -> Tensor | None:
        """The sources to go on with, once enough are done; None to leave the batch as it is."""
        if self.done.sum() * SHARE_DONE < len(self.done) or not self.done.any():
            return None
        (kept,) = np.nonzero(~self.done)
        self.numbers, self.written, self.done = self.numbers[kept], self.written[kept], self.done[kept]
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

    def _constrain(self, scores_BWV: Tensor, normaliser_BW1: Tensor, position: int) -> None:
        forbid_impossible(scores_BWV, normaliser_BW1)
        if position < self.settings.min_length:
            forbid_end(scores_BWV)
        if self.settings.no_repeat_ngram:
            forbid_repeats(scores_BWV, self.written, self.settings.no_repeat_ngram)
        if self.prefixes is not None:
            force_prefix(scores_BWV, self.prefixes, position)
        (full,) = np.nonzero(self.limits[self.numbers] == position)
        if len(full):
            force_end(scores_BWV, full)

    def _candidates(self, scores_BWV: Tensor, normaliser_BW1: Tensor) -> Candidates:
        """The best 2·N of each unit, (B, G, 2N); a later group pays for what earlier ones would write."""
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
            groups.append(found._replace(row_BN=found.row_BN + group * rows) if group else found)
        return Candidates(*(np.stack(parts, axis=1) for parts in zip(*groups, strict=True)))

    def _finish(
        self, totals: NDArray[np.float32], rows: NDArray[np.int64], at_end: NDArray[np.bool_], position: int
    ) -> None:
        """Every eos among the first N ranks of a unit that has room."""
        for source, group, rank in np.argwhere(at_end[..., : self.width]):
            number = self.numbers[source]
            place, log_prob = self.finished[number][group], float(totals[source, group, rank])
            if self.done[source] or len(place) == self.width or log_prob == -np.inf:
                continue
            tokens = [*self.written[source, rows[source, group, rank]].tolist(), EOS]
            place.append(Hypothesis(tokens, log_prob, log_prob / len(tokens) ** self.settings.lenpen))
            if all(len(each) == self.width for each in self.finished[number]):
                self.done[source] = True
