"""The best continuations of all rows, found without sorting or normalising the vocabulary."""

from __future__ import annotations

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
    """The `count` best of the W×V sums of every source."""
    vocabulary = scores_BWV.shape[2]
    each = min(count, vocabulary)
    value_BWN, token_BWN = largest(scores_BWV, each)
    sums_BN = (value_BWN + (total_BW[..., None] - normaliser_BW1)).flatten(1)
    total_BN, place_BN = sums_BN.topk(min(count, sums_BN.shape[1]), dim=1)
    return Candidates(total_BN, place_BN // each, token_BWN.flatten(1).gather(1, place_BN))


def largest(scores_BWV: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` largest of each row and their places, in order.

    They stand in the chunks with the `count` largest maxima, so only these are searched.
    """
    chunks = scores_BWV.shape[2] // CHUNK
    if chunks <= 2 * count:
        return scores_BWV.topk(count, dim=2)
    head_BWCX = scores_BWV[..., : chunks * CHUNK].unflatten(2, (chunks, CHUNK))
    chunk_BWN = head_BWCX.amax(dim=3).topk(count, dim=2, sorted=False).indices
    near_BWNX = head_BWCX.gather(2, chunk_BWN[..., None].expand(-1, -1, -1, CHUNK))
    rest_BWX = scores_BWV[..., chunks * CHUNK :]
    value_BWN, place_BWN = torch.cat([near_BWNX.flatten(2), rest_BWX], dim=2).topk(count, dim=2)
    in_rest = place_BWN - count * CHUNK
    chunk_of_place = chunk_BWN.gather(2, (place_BWN // CHUNK).clamp(max=count - 1))
    token_BWN = torch.where(in_rest >= 0, chunks * CHUNK + in_rest, chunk_of_place * CHUNK + place_BWN % CHUNK)
    return value_BWN, token_BWN
