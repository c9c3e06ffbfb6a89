"""The best continuations of all rows, found without normalising the vocabulary."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from lamina.search import kernels
from lamina.search.kernels import Floats, Numbers


class Candidates(NamedTuple):
    """The best continuations of each source, best first: their sums of log p, their rows and their tokens."""

    total_BN: Floats
    row_BN: Numbers
    token_BN: Numbers


def best_candidates(total_BW: Floats, scores_BWV: Tensor, normaliser_BW1: Tensor, count: int) -> Candidates:
    """The `count` best of the W×V sums of every source; where there are fewer, the rest is impossible."""
    if scores_BWV.device.type == "cpu" and scores_BWV.dtype == torch.float32:
        before_BW = np.ascontiguousarray(total_BW - normaliser_BW1.numpy()[..., 0])
        return Candidates(*kernels.best_sums(before_BW, scores_BWV.contiguous().numpy(), count))
    before_BW1 = torch.as_tensor(total_BW, device=scores_BWV.device)[..., None] - normaliser_BW1
    sum_BX, vocabulary = (scores_BWV + before_BW1).flatten(1), scores_BWV.shape[2]
    total_BN, place_BN = sum_BX.topk(min(count, sum_BX.shape[1]), dim=1)
    missing = (0, count - total_BN.shape[1])
    place = F.pad(place_BN, missing).cpu().numpy()
    total = F.pad(total_BN, missing, value=-torch.inf).float().cpu().numpy()
    return Candidates(total, place // vocabulary, place % vocabulary)
