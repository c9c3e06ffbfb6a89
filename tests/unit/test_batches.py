"""The order of batches depends on seed and epoch only; every pair occurs once, for any number of ranks."""

from __future__ import annotations

from itertools import chain, islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lamina.corpus.batches import Batches, Position, Update, divisible
from lamina.text.vocabulary import BOS, EOS, PAD


class FakeSplit:
    """Pairs of given lengths; every token of pair n is n + 4."""

    def __init__(self, lengths: list[tuple[int, int]]) -> None:
        self.pairs = lengths

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        source, target = self.pairs[index]
        return np.array([index + 4] * (source - 1) + [EOS]), np.array([index + 4] * (target - 1) + [EOS])

    def lengths(self, side: str) -> np.ndarray:
        return np.array([pair[side == "target"] for pair in self.pairs], dtype=np.int32)


lengths = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=1, max_size=120)


def epoch(batches: Batches, position: Position = Position()) -> list[Update]:  # noqa: B008
    result = []
    for update, after in batches.iterate(position):
        result.append(update)
        if after.epoch > position.epoch:
            return result
    raise AssertionError("an epoch must end")


def seen(update: Update) -> list[int]:
    return sorted(chain.from_iterable(batch.pairs.tolist() for batch in update.batches))


@given(lengths, st.integers(1, 3), st.integers(0, 5))
def test_every_pair_exactly_once_per_epoch_for_any_number_of_ranks(
    pairs: list[tuple[int, int]], seed: int, number: int
) -> None:
    whole = [seen(update) for update in epoch(Batches(FakeSplit(pairs), 64, seed=seed), Position(number))]
    assert sorted(chain.from_iterable(whole)) == list(range(len(pairs)))
    for ranks, accumulate in ((2, 1), (1, 2), (2, 2), (4, 1)):
        shares = [
            epoch(
                Batches(
                    FakeSplit(pairs),
                    64 // (ranks * accumulate),
                    ranks=ranks,
                    rank=rank,
                    accumulate=accumulate,
                    seed=seed,
                ),
                Position(number),
            )
            for rank in range(ranks)
        ]
        together = [sorted(chain.from_iterable(map(seen, updates))) for updates in zip(*shares, strict=True)]
        assert together == whole
        assert {update.tokens for update in shares[0]} == {update.tokens for update in shares[-1]}


@given(lengths, st.integers(1, 100))
def test_the_order_depends_on_seed_and_epoch_only(pairs: list[tuple[int, int]], seed: int) -> None:
    one, other = (Batches(FakeSplit(pairs), 64, seed=seed) for _ in range(2))
    other.updates(3)  # independent of earlier calls
    assert [u.tolist() for u in one.updates(1)] == [u.tolist() for u in other.updates(1)]


def test_seeds_and_epochs_differ() -> None:
    pairs = [(5 + n % 7, 4 + n % 9) for n in range(400)]
    orders = [
        [update.tolist() for update in Batches(FakeSplit(pairs), 128, seed=seed).updates(number)]
        for seed, number in ((1, 0), (1, 1), (2, 0))
    ]
    assert orders[0] != orders[1] != orders[2] != orders[0]


@settings(max_examples=50)
@given(lengths, st.data())
def test_resuming_within_an_epoch_is_exact(pairs: list[tuple[int, int]], data: Any) -> None:
    batches = Batches(FakeSplit(pairs), 64)
    straight = list(islice(batches.iterate(Position()), 30))
    stop = data.draw(st.integers(0, len(straight) - 2))
    resumed = Batches(FakeSplit(pairs), 64).iterate(straight[stop][1])
    for (expected, after), (found, position) in zip(straight[stop + 1 :], resumed, strict=False):
        assert seen(expected) == seen(found)
        assert after == position


@given(lengths, st.sampled_from([(1, 1), (2, 1), (2, 2), (4, 2)]))
def test_micro_batches_keep_within_the_budget(pairs: list[tuple[int, int]], shares: tuple[int, int]) -> None:
    ranks, accumulate = shares
    batches = Batches(FakeSplit(pairs), 80, ranks=ranks, accumulate=accumulate)
    alone = set(batches.oversized().tolist())
    for update in batches.updates(0):
        for part in np.array_split(update, ranks * accumulate):
            if not alone & set(part.tolist()) and len(update) % (ranks * accumulate) == 0:
                assert len(part) * batches.target_lengths[part].max(initial=0) <= 80
                assert len(part) * batches.source_lengths[part].max(initial=0) <= 160


def test_a_sentence_longer_than_the_budget_is_its_own_batch() -> None:
    batches = Batches(FakeSplit([(3, 3), (5, 500), (900, 4), (3, 4)]), 64)
    assert batches.oversized().tolist() == [1, 2]
    updates = [update.tolist() for update in batches.updates(0)]
    assert [1] in updates
    assert [2] in updates
    assert sorted(chain.from_iterable(updates)) == [0, 1, 2, 3]


def test_a_batch_is_padded_on_the_right_and_prefixes_start_with_the_start_token() -> None:
    (update,) = epoch(Batches(FakeSplit([(3, 2), (2, 4)]), 64))
    (batch,) = update.batches
    order = batch.pairs.tolist()
    sources = {0: [4, 4, EOS], 1: [5, EOS, PAD]}
    targets = {0: [4, EOS, PAD, PAD], 1: [5, 5, 5, EOS]}
    prefixes = {0: [BOS, 4, PAD, PAD], 1: [BOS, 5, 5, 5]}
    assert batch.source.tolist() == [sources[n] for n in order]
    assert batch.target.tolist() == [targets[n] for n in order]
    assert batch.prefix.tolist() == [prefixes[n] for n in order]
    assert batch.tokens == update.tokens == 6


def test_a_rank_may_have_an_empty_batch() -> None:
    update = epoch(Batches(FakeSplit([(3, 2)]), 16, ranks=4, rank=3))[0]
    assert [batch.source.shape for batch in update.batches] == [(0, 0)]
    assert update.tokens == 2


@pytest.mark.parametrize(("sentences", "cut"), [(1, 1), (2, 2), (3, 2), (7, 4), (8, 8), (15, 8), (1001, 1000)])
def test_divisible(sentences: int, cut: int) -> None:
    assert divisible(sentences) == cut


def test_no_pairs_no_updates() -> None:
    assert list(Batches(FakeSplit([]), 64).iterate(Position())) == []
