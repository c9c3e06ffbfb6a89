"""The best continuations of all rows, found without normalising the vocabulary."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from lamina.search import kernels


class Candidates(NamedTuple):
    """The best continuations of each source, best first: their sums of log p, their rows and their tokens."""

    total_BN: Tensor
    row_BN: Tensor
    token_BN: Tensor


def best_candidates(total_BW: Tensor, scores_BWV: Tensor, normaliser_BW1: Tensor, count: int) -> Candidates:
    """The `count` best of the W×V sums of every source."""
    before_BW1 = total_BW[..., None] - normaliser_BW1
    if scores_BWV.device.type == "cpu" and scores_BWV.dtype == torch.float32:
        before_BW = before_BW1.squeeze(2).contiguous().numpy()
        return Candidates(*map(torch.from_numpy, kernels.best_sums(before_BW, scores_BWV.contiguous().numpy(), count)))
    sum_BX = (scores_BWV + before_BW1).flatten(1)
    vocabulary = scores_BWV.shape[2]
    total_BN, place_BN = sum_BX.topk(min(count, sum_BX.shape[1]), dim=1)
    absent = (0, count - total_BN.shape[1])
    total_BN, place_BN = F.pad(total_BN, absent, value=-torch.inf), F.pad(place_BN, absent)
    return Candidates(total_BN, place_BN // vocabulary, place_BN % vocabulary)
