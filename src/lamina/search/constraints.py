"""What may not be written next, as edits of a step's scores before the best are taken; the rules are in `rules`."""

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

Written = NDArray[np.int64]  # (B, W, T): what every row has written so far


def constrain(
    log_probs: LogProbs,
    written_BWT: Written,
    settings: SearchSettings,
    limits_B: Sequence[int],
    prefixes: Sequence[Sequence[int]] | None = None,
) -> None:
    """Leave every row only what it may write at its next position."""
    scores_BWV, position = log_probs.scores_BTV, written_BWT.shape[2]
    forbid_impossible(scores_BWV, log_probs.normaliser_BT1)
    forced_B = [
        forced_token(position, limit, prefix, 0, len(prefix))
        for limit, prefix in zip(limits_B, prefixes or [()] * len(limits_B), strict=True)
    ]
    forced = [(source, token) for source, token in enumerate(forced_B) if token != FREE]
    chosen = [scores_BWV[source, :, token].clone() for source, token in forced]
    if position < settings.min_length:
        scores_BWV[..., EOS] = -torch.inf
    if settings.no_repeat_ngram:
        forbid_repeats(scores_BWV, written_BWT, settings.no_repeat_ngram)
    for (source, token), own_W in zip(forced, chosen, strict=True):
        scores_BWV[source] = -torch.inf
        scores_BWV[source, :, token] = own_W


def forbid_impossible(scores_BWV: Tensor, normaliser_BW1: Tensor) -> None:
    """Padding is never written, and a score that is not a number never wins."""
    scores_BWV.select(2, PAD).fill_(-torch.inf)
    if math.isnan(float(normaliser_BW1.sum())):
        scores_BWV.masked_fill_(scores_BWV.isnan() | normaliser_BW1.isnan(), -torch.inf)


def forbid_repeats(scores_BWV: Tensor, written_BWT: Written, size: int) -> None:
    """No n-gram of this size twice in a row's own text."""
    length = written_BWT.shape[2]
    banned = np.zeros(length, np.int64)
    for source, row in np.ndindex(written_BWT.shape[:2]):
        count = repeated_tokens(written_BWT[source, row], length, size, banned)
        scores_BWV[source, row, banned[:count]] = -torch.inf
