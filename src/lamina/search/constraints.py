"""Constraints on the next token, applied to a step's scores; the rules are in `rules`."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lamina.model.states import LogProbs
from lamina.recipe.decode import SearchSettings
from lamina.search.rules import FREE, forced_token, repeated_tokens
from lamina.text.vocabulary import EOS, PAD

Written = NDArray[np.int64]  # (B, W, T): tokens of every row so far


def constrain(
    log_probs: LogProbs,
    written_BWT: Written,
    settings: SearchSettings,
    limits_B: Sequence[int],
    prefixes: Sequence[Sequence[int]] | None = None,
) -> None:
    """Mask the tokens that rows may not write at their next position, without synchronisation."""
    scores_BWV, position = log_probs.scores_BTV, written_BWT.shape[2]
    forbid_impossible(scores_BWV, log_probs.normaliser_BT1)
    forced_B = [
        forced_token(position, limit, prefix, 0, len(prefix))
        for limit, prefix in zip(limits_B, prefixes or [()] * len(limits_B), strict=True)
    ]
    sources = [source for source, token in enumerate(forced_B) if token != FREE]
    if sources:
        index = to_device([sources, [forced_B[source] for source in sources]], scores_BWV.device)
        source_F, token_F = index.unbind()
        forced_FW = scores_BWV[source_F, :, token_F]
    if position < settings.min_length:
        scores_BWV.select(2, EOS).fill_(-torch.inf)
    if settings.no_repeat_ngram:
        forbid_repeats(scores_BWV, written_BWT, settings.no_repeat_ngram)
    if sources:
        scores_BWV.index_fill_(0, source_F, -torch.inf)
        scores_BWV[source_F, :, token_F] = forced_FW


def forbid_impossible(scores_BWV: Tensor, normaliser_BW1: Tensor) -> None:
    """Mask padding and NaN scores."""
    scores_BWV.select(2, PAD).fill_(-torch.inf)
    if scores_BWV.device.type != "cpu" or math.isnan(float(normaliser_BW1.sum())):  # free on a CPU
        scores_BWV.masked_fill_(scores_BWV.isnan() | normaliser_BW1.isnan(), -torch.inf)
        normaliser_BW1.masked_fill_(normaliser_BW1.isnan(), 0.0)


def to_device(numbers: Sequence[Sequence[int]], device: torch.device) -> Tensor:
    """Copy a small table to the device without waiting."""
    table = torch.tensor(numbers)
    return table.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else table.to(device)


def forbid_repeats(scores_BWV: Tensor, written_BWT: Written, size: int) -> None:
    """Mask tokens that would repeat an n-gram of this size within a row."""
    length = written_BWT.shape[2]
    banned = np.zeros(length, np.int64)
    masked: list[tuple[int, int, int]] = []
    for source, row in np.ndindex(written_BWT.shape[:2]):
        count = repeated_tokens(written_BWT[source, row], length, size, banned)
        masked += [(source, row, int(token)) for token in banned[:count]]
    if masked:
        source_X, row_X, token_X = to_device(list(zip(*masked, strict=True)), scores_BWV.device).unbind()
        scores_BWV.index_put_((source_X, row_X, token_X), scores_BWV.new_full((), -torch.inf))
