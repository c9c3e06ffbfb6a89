from __future__ import annotations

import pytest

from lamina.corpus.cleaning import clean
from lamina.corpus.filters import REASONS, Filters

PAIRS = [
    ("a good pair", "ein gutes Paar"),
    ("", "leer"),
    ("two  spaces", "zwei Leerzeichen"),
    ("x" * 30, "y"),
    ("short", "y" * 200),
    ("two spaces", "zwei Leerzeichen"),
    (" \u2028 ", "\x00"),
    ("a good pair", "ein anderes Paar"),
    ("a good pair", "ein gutes Paar"),
]


def test_every_dropped_pair_is_counted_by_reason_with_its_line() -> None:
    found = clean(PAIRS, Filters(max_characters=150, max_ratio=3))
    assert found.keep.tolist() == [True, False, True, False, False, False, False, True, False]
    assert found.dropped == {"empty": 2, "long": 1, "ratio": 1, "duplicate": 2}
    assert found.first_lines == {"empty": [2, 7], "long": [5], "ratio": [4], "duplicate": [6, 9]}
    assert found.kept == 3


@pytest.mark.parametrize("off", REASONS)
def test_filters_can_be_turned_off_one_by_one(off: str) -> None:
    active = tuple(reason for reason in REASONS if reason != off)
    found = clean(PAIRS, Filters(active, max_characters=150, max_ratio=3))
    assert found.dropped[off] == 0
    assert all(found.dropped[reason] for reason in active)


def test_without_filters_everything_is_kept() -> None:
    assert clean(PAIRS, Filters(())).kept == len(PAIRS)


def test_short_lines_may_differ_in_length() -> None:
    assert Filters().reason("Yes.", "Jawohl, mein Herr, so ist es wohl.") is None


def test_duplicates_are_no_text_to_learn_from() -> None:
    """`characters` decides how much of the text subwords are learned from."""
    once = clean([("one", "eins"), ("two", "zwei")], Filters())
    assert once.characters == len("oneeinstwozwei")
    assert clean([("one", "eins"), ("two", "zwei")] * 9, Filters()).characters == once.characters
