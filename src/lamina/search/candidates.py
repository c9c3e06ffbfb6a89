"""The best continuations of all rows, without normalising over the vocabulary, and those of them that do not end.

All of this runs on the device of the scores; the host receives the results of a step in one copy.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from lamina.text.vocabulary import EOS

Floats = NDArray[np.float32]
Numbers = NDArray[np.int64]


class Candidates(NamedTuple):
    """The best continuations of each source, best first: sums of log p, rows and tokens."""

    total_BN: Tensor
    row_BN: Tensor
    token_BN: Tensor

    def continuing(self, width: int) -> Candidates:
        """The first `width` that do not end, like `rules.split_candidates`, without synchronisation."""
        ends_BN = (self.token_BN == EOS).to(torch.uint8)
        rank_BW = ends_BN.sort(dim=1, stable=True).indices[:, :width]
        return Candidates(*(part.gather(1, rank_BW) for part in self))

    def to_host(self) -> HostCandidates:
        """Copy to the host at once: 64-bit floats represent all three exactly."""
        total, row, token = torch.stack([part.double() for part in self]).cpu().numpy()
        return HostCandidates(total.astype(np.float32), row.astype(np.int64), token.astype(np.int64))


class HostCandidates(NamedTuple):
    """Candidates on the host."""

    total_BN: Floats
    row_BN: Numbers
    token_BN: Numbers


def best_candidates(total_BW: Tensor, scores_BWV: Tensor, normaliser_BW1: Tensor, count: int) -> Candidates:
    """The `count` best of the W×V sums of every source, padded with −inf if there are fewer."""
    before_BW1 = total_BW[..., None] - normaliser_BW1
    sum_BX, vocabulary = (scores_BWV + before_BW1).flatten(1), scores_BWV.shape[2]
    total_BN, index_BN = sum_BX.topk(min(count, sum_BX.shape[1]), dim=1)
    missing = (0, count - total_BN.shape[1])
    if missing[1]:
        total_BN, index_BN = F.pad(total_BN, missing, value=-torch.inf), F.pad(index_BN, missing)
    return Candidates(total_BN.float(), index_BN.div(vocabulary, rounding_mode="floor"), index_BN % vocabulary)
