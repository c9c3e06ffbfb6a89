"""What may not be written next: edits of a step's scores, before the best are taken."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lamina.text.vocabulary import EOS, PAD

Written = NDArray[np.int64]  # (B, W, T): what every row has written so far


def forbid_impossible(scores_BWV: Tensor, normaliser_BW1: Tensor) -> None:
    """Padding is never written, and a score that is not a number never wins."""
    scores_BWV.select(2, PAD).fill_(-torch.inf)
    if math.isnan(float(normaliser_BW1.sum())):
        scores_BWV.masked_fill_(scores_BWV.isnan() | normaliser_BW1.isnan(), -torch.inf)


def forbid_end(scores_BWV: Tensor) -> None:
    """Below the minimum length."""
    scores_BWV[..., EOS] = -torch.inf


def force_end(scores_BWV: Tensor, sources: NDArray[np.int64]) -> None:
    """At the maximum length of these sources."""
    end_XW = scores_BWV[sources][..., EOS].clone()
    scores_BWV[sources] = -torch.inf
    scores_BWV[sources, :, EOS] = end_XW


def force_prefix(scores_BWV: Tensor, prefixes: Sequence[Sequence[int]], position: int) -> None:
    """Sources whose prefix reaches so far continue with its next token."""
    for source, prefix in enumerate(prefixes):
        if position < len(prefix):
            forced_W = scores_BWV[source, :, prefix[position]].clone()
            scores_BWV[source] = -torch.inf
            scores_BWV[source, :, prefix[position]] = forced_W


def forbid_repeats(scores_BWV: Tensor, written: Written, size: int) -> None:
    """No n-gram of this size twice in a row's own text (Paulus et al. 2018)."""
    length = written.shape[2]
    if length < size:
        return
    for source, row in np.ndindex(written.shape[:2]):
        tokens = written[source, row].tolist()
        tail = tokens[length - size + 1 :]
        banned = [tokens[end] for end in range(size - 1, length) if tokens[end - size + 1 : end] == tail]
        scores_BWV[source, row, banned] = -torch.inf
