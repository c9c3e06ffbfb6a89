"""The best continuations of all rows, without normalising over the vocabulary."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

Floats = NDArray[np.float32]
Numbers = NDArray[np.int64]


class Candidates(NamedTuple):
    """The best continuations of each source, best first: their sums of log p, their rows and their tokens."""

    total_BN: Floats
    row_BN: Numbers
    token_BN: Numbers


def best_candidates(total_BW: Floats, scores_BWV: Tensor, normaliser_BW1: Tensor, count: int) -> Candidates:
    """The `count` best of the W×V sums of every source; where there are fewer, the rest is impossible."""
    before_BW1 = torch.as_tensor(total_BW, device=scores_BWV.device)[..., None] - normaliser_BW1
    sum_BX, vocabulary = (scores_BWV + before_BW1).flatten(1), scores_BWV.shape[2]
    total_BN, place_BN = sum_BX.topk(min(count, sum_BX.shape[1]), dim=1)
    missing = (0, count - total_BN.shape[1])
    place = F.pad(place_BN, missing).cpu().numpy()
    total = F.pad(total_BN, missing, value=-torch.inf).float().cpu().numpy()
    return Candidates(total, place // vocabulary, place % vocabulary)
