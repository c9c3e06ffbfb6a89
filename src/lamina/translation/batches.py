"""Batches of sentences of similar length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

BATCH_SENTENCES, BATCH_TOKENS = 32, 8192  # maximum batch size in sentences and in padded source tokens


def is_blank(source: Sequence[int]) -> bool:
    """Whether the source is empty apart from eos."""
    return len(source) <= 1


def cut_batches(lengths: Sequence[int], sentences: int = BATCH_SENTENCES, workers: int = 1) -> Iterator[list[int]]:
    """Yield batches of sentence numbers, longest sentences first, with equally many batches per worker.

    Sentences of similar length are grouped; with one batch per worker, the batches are balanced instead.
    """
    order = sorted(range(len(lengths)), key=lambda number: -lengths[number])
    rounds = max(1, -(-len(order) // (sentences * workers)))
    shares = [order] if rounds > 1 else [order[first::workers] for first in range(workers)]
    batch_size = -(-len(order) // (rounds * workers))
    for share in shares:
        start = 0
        while start < len(share):
            size = max(1, min(batch_size, BATCH_TOKENS // max(1, lengths[share[start]])))
            yield share[start : start + size]
            start += size
