"""Batched beam search over any `Stepper`.

Hypotheses are ranked by the sum of log p. `rules.split_candidates` decides which of the 2·beam best continuations end
and which continue. A source is done with `beam` finished hypotheses or at its maximum length. Diverse groups are
separate beams of the same source.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lamina.model.states import LogProbs
from lamina.recipe.decode import SearchSettings
from lamina.search.candidates import Candidates, HostCandidates, best_candidates
from lamina.search.constraints import constrain, to_device
from lamina.search.hypothesis import Hypothesis
from lamina.search.rules import split_candidates
from lamina.search.stepper import Stepper
from lamina.text.vocabulary import EOS, PAD

SHARE_DONE = 16  # once 1 in this number of sources is done, the batch shrinks to the others


def beam_search(
    stepper: Stepper,
    source_BS: Tensor,
    settings: SearchSettings,
    start_id: int,
    prefixes: Sequence[Sequence[int]] | None = None,
) -> list[list[Hypothesis]]:
    """The finished hypotheses of every source, best first."""
    search = _Search(source_BS, settings, prefixes)
    state = stepper.start(source_BS, settings.diverse_groups)  # the rows of a group are equal at first: one suffices
    tokens_R = torch.full((len(source_BS) * settings.diverse_groups,), start_id, device=source_BS.device)
    for position in count():
        log_probs, state = stepper.step(tokens_R, state)
        rows_R, tokens_R = search.advance(log_probs, position)
        if search.over:
            break
        state = stepper.reorder(state, rows_R)
        kept = search.shrink()
        if kept is not None:
            state = stepper.keep(state, kept)
            tokens_R = tokens_R.view(-1, settings.beam).index_select(0, kept).flatten()
    return search.results()


class _Search:
    """The hypotheses of a batch, active and finished; U units (source × group) of N rows each."""

    def __init__(self, source_BS: Tensor, settings: SearchSettings, prefixes: Sequence[Sequence[int]] | None) -> None:
        self.settings, self.device = settings, source_BS.device
        sources = len(source_BS)
        self.width = settings.beam // settings.diverse_groups
        self.numbers = np.arange(sources)  # indices of the sources still in the batch
        lengths = (source_BS != PAD).sum(dim=1).tolist()
        forced = [len(prefix) for prefix in prefixes] if prefixes is not None else [0] * sources
        limits = [max(settings.limit(length), least) for length, least in zip(lengths, forced, strict=True)]
        self.limits = np.array(limits, dtype=np.int64)
        self.written: NDArray[np.int64] = np.zeros((sources, settings.diverse_groups, 0), dtype=np.int64)
        self.total_BW = torch.zeros(sources, settings.diverse_groups, device=self.device)
        self.first_row_B1 = torch.arange(sources, device=self.device)[:, None]  # of a source, ÷ rows per source
        self.prefixes = list(prefixes) if prefixes is not None else None
        self.finished: list[list[list[Hypothesis]]] = [
            [[] for _ in range(settings.diverse_groups)] for _ in range(sources)
        ]
        self.done = np.zeros(sources, dtype=bool)

    @property
    def over(self) -> bool:
        """Whether every source is done."""
        return bool(self.done.all())

    def advance(self, log_probs: LogProbs, position: int) -> tuple[Tensor, Tensor]:
        """Advance by one step's distributions; return the rows that continue, and the token of each."""
        constrain(log_probs, self.written, self.settings, self.limits.tolist(), self.prefixes)
        found = self._candidates(log_probs.scores_BTV, log_probs.normaliser_BT1)
        shape = (len(self.numbers), self.settings.beam)
        continuing = found.continuing(self.width)
        self.total_BW, row_BW, token_BW = (part.reshape(shape) for part in continuing)
        self._record(found.to_host())  # the step's only synchronisation
        self.done |= self.limits <= position
        rows = log_probs.scores_BTV.shape[1]
        return (row_BW + self.first_row_B1[: shape[0]] * rows).flatten(), token_BW.flatten()

    def _record(self, found: HostCandidates) -> None:
        """Record written tokens and finished hypotheses on the host."""
        rank_UN = np.stack([self._split(unit, found) for unit in range(len(found.token_BN))])
        shape = (len(self.numbers), self.settings.beam)
        unit_U1, source_B1 = np.arange(len(rank_UN))[:, None], np.arange(shape[0])[:, None]
        row_BW, token_BW = (part[unit_U1, rank_UN].reshape(shape) for part in (found.row_BN, found.token_BN))
        self.written = np.concatenate([self.written[source_B1, row_BW], token_BW[..., None]], axis=2)

    def shrink(self) -> Tensor | None:
        """Drop finished sources once enough are done; return those that continue, or None to keep the batch."""
        if self.done.sum() * SHARE_DONE < len(self.done) or not self.done.any():
            return None
        (kept,) = np.nonzero(~self.done)
        self.numbers, self.limits = self.numbers[kept], self.limits[kept]
        self.written, self.done = self.written[kept], self.done[kept]
        if self.prefixes is not None:
            self.prefixes = [self.prefixes[number] for number in kept]
        on_device = to_device([kept.tolist()], self.device)[0]
        self.total_BW = self.total_BW.index_select(0, on_device)
        return on_device

    def results(self) -> list[list[Hypothesis]]:
        """The finished hypotheses of every source, best score first."""
        return [
            sorted((each for group in groups for each in group), key=lambda hypothesis: -hypothesis.score)
            for groups in self.finished
        ]

    def _candidates(self, scores_BWV: Tensor, normaliser_BW1: Tensor) -> Candidates:
        """The best 2·N continuations of each unit, (U, 2N). Tokens that earlier groups chose are penalised in the
        ranking of later ones; the sums exclude the penalty.
        """
        if self.settings.diverse_groups == 1:
            return best_candidates(self.total_BW, scores_BWV, normaliser_BW1, 2 * self.width)
        groups: list[Candidates] = []
        rows = scores_BWV.shape[1] // self.settings.diverse_groups
        counts_BV = scores_BWV.new_zeros(len(scores_BWV), scores_BWV.shape[2], dtype=torch.float32)
        for group in range(self.settings.diverse_groups):
            members = slice(group * rows, (group + 1) * rows)
            penalty_BV = self.settings.diversity * counts_BV
            penalised = scores_BWV[:, members] - penalty_BV[:, None]
            found = best_candidates(self.total_BW[:, members], penalised, normaliser_BW1[:, members], 2 * self.width)
            total_BN = found.total_BN + penalty_BV.gather(1, found.token_BN)
            groups.append(Candidates(total_BN, found.row_BN + group * rows, found.token_BN))
            chosen_BN = found.token_BN[:, : self.width]
            counts_BV.scatter_add_(1, chosen_BN, torch.ones_like(chosen_BN, dtype=torch.float32))
        stacked = (torch.stack(parts, dim=1).view(-1, 2 * self.width) for parts in zip(*groups, strict=True))
        return Candidates(*stacked)

    def _split(self, unit: int, found: HostCandidates) -> NDArray[np.int64]:
        """Record the finished hypotheses of a unit, and return the ranks that continue."""
        source, group = divmod(unit, self.settings.diverse_groups)
        finished, width = self.finished[self.numbers[source]], self.width
        ended, continuing = np.zeros((2, width), dtype=np.int64)
        free = 0 if self.done[source] else width - len(finished[group])
        sums, tokens = found.total_BN[unit], found.token_BN[unit]
        ending, _ = split_candidates(sums, tokens, width, free, -np.inf, ended, continuing)
        for rank in ended[:ending].tolist():
            output = [*self.written[source, found.row_BN[unit, rank]].tolist(), EOS]
            log_prob = float(sums[rank])
            finished[group].append(Hypothesis(output, log_prob, log_prob / len(output) ** self.settings.lenpen))
        self.done[source] |= all(len(each) == width for each in finished)
        return continuing
