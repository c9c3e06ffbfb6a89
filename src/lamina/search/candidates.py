"""The best continuations of all rows, found without sorting or normalising the vocabulary."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

CHUNK = 64  # neighbours of which only the maximum is looked at first


class Candidates(NamedTuple):
    """The best continuations of each source, best first: their sums of log p, their rows and their tokens."""

    total_BN: Tensor
    row_BN: Tensor
    token_BN: Tensor


def best_candidates(total_BW: Tensor, scores_BWV: Tensor, normaliser_BW1: Tensor, count: int) -> Candidates:
    """The `count` best of the W×V sums of every source.

    They stand in the `count` chunks with the largest maxima, or in what fills no chunk: only these are searched.
    """
    batch, rows, vocabulary = scores_BWV.shape
    before_BW1 = total_BW[..., None] - normaliser_BW1
    chunks, left = divmod(vocabulary, CHUNK)
    if rows * chunks <= count:
        total_BN, place_BN = (scores_BWV + before_BW1).flatten(1).topk(min(count, rows * vocabulary), dim=1)
        return Candidates(total_BN, place_BN // vocabulary, place_BN % vocabulary)
    chunk_BWCX = scores_BWV[..., : chunks * CHUNK].unflatten(2, (chunks, CHUNK))
    largest_BC = (chunk_BWCX.amax(dim=3) + before_BW1).flatten(1)
    chunk_BN = largest_BC.topk(count, dim=1, sorted=False).indices
    first_BN = chunk_BN * CHUNK + chunk_BN // chunks * left  # where the chunk begins among all W×V
    within_X, rest_Y = _places(rows, vocabulary, scores_BWV.device)
    place_BX = torch.cat([(first_BN[..., None] + within_X).flatten(1), rest_Y.expand(batch, -1)], dim=1)
    sum_BX = scores_BWV.flatten(1).gather(1, place_BX) + before_BW1.squeeze(2).gather(1, place_BX // vocabulary)
    total_BN, best_BN = sum_BX.topk(count, dim=1)
    place_BN = place_BX.gather(1, best_BN)
    return Candidates(total_BN, place_BN // vocabulary, place_BN % vocabulary)


@cache
def _places(rows: int, vocabulary: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Places within a chunk, and those of all rows that fill no chunk."""
    places_WV = torch.arange(rows * vocabulary, device=device).view(rows, vocabulary)
    return places_WV[0, :CHUNK].clone(), places_WV[:, vocabulary // CHUNK * CHUNK :].flatten()
