"""`lamina.prepare` from Python: pairs, records of `datasets`, one-shot iterators."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lamina
from lamina.corpus.records import parse_record, read_records
from lamina.errors import DataError, UsageError

PAIRS = [(f"a dog {n} runs", f"ein Hund {n} rennt") for n in range(40)]


class Split:
    """Imitates a split of Hugging Face `datasets`."""

    column_names = ("id", "translation")

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for number, (source, target) in enumerate(PAIRS):
            yield {"id": number, "translation": {"en": source, "de": target}}


def prepare(train: Any, out: Path, **options: Any) -> lamina.PreparedData:
    return lamina.prepare(train, PAIRS[:2], out, workers=1, progress=False, **options)


def test_iterator_list_and_dataset_split_give_the_same_data(tmp_path: Path) -> None:
    made = [
        prepare(iter(PAIRS), tmp_path / "stream", langs=("en", "de")),
        prepare(PAIRS, tmp_path / "list", langs=("en", "de")),
        prepare(Split(), tmp_path / "split"),
    ]
    assert {repr(each).partition(", ")[2] for each in made} == {"en → de, 40 train and 2 valid pairs, vocabulary 329)"}
    tested = prepare(PAIRS, tmp_path / "tested", test=PAIRS[:3])
    assert "40 train, 2 valid and 3 test pairs" in repr(tested)
    ids = [[pair[0].tolist() for pair in map(each.split("train").__getitem__, range(40))] for each in made]
    assert ids[0] == ids[1] == ids[2]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["list", "split", "stream", "tested"]  # and nothing else


def test_preparing_the_same_pairs_again_does_nothing(tmp_path: Path) -> None:
    before = (prepare(PAIRS, tmp_path / "data").folder / "meta.json").stat().st_mtime_ns
    assert (prepare(iter(PAIRS), tmp_path / "data").folder / "meta.json").stat().st_mtime_ns == before
    with pytest.raises(UsageError, match="contains data prepared with different settings"):
        prepare(PAIRS[1:], tmp_path / "data")


@pytest.mark.parametrize(
    ("record", "fields"),
    [
        (("a", "b"), None),
        (["a", "b"], None),
        ({"src": "a", "tgt": "b", "id": 1}, None),
        ({"source": "a", "target": "b"}, None),
        ({"en": "a", "de": "b"}, None),
        ({"de": "b", "id": 1, "en": "a"}, ("en", "de")),
        ({"translation": {"de": "b", "en": "a"}}, ("en", "de")),
        ({"translation": {"en": "a", "de": "b"}, "id": 3}, None),
    ],
)
def test_records(record: Any, fields: tuple[str, str] | None) -> None:
    assert parse_record(record, fields, "train, pair 1") == ("a", "b")


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ([("a", "b"), ("a", None)], r"test, pair 2: must be two texts, source and target, but is \(str, NoneType\)"),
        (["text"], r"test, pair 1: must be two texts, source and target, but is \(str\) instead"),
        ([{"a": "x", "b": "y", "c": "z"}], "has the columns `a`, `b`, `c`. Name the two columns with fields="),
        ([], "test: has no pairs"),
        ({"train": [], "test": []}, "is a mapping with the keys 'train', 'test'; pass one of its values"),
    ],
)
def test_invalid_pairs_are_reported(records: Any, message: str) -> None:
    with pytest.raises((DataError, UsageError), match=message):
        list(read_records(records, "test"))


def test_missing_fields_are_named() -> None:
    with pytest.raises(DataError, match=r"pair 1: has the columns `a`\. `src` and `tgt` are required\.$"):
        parse_record({"a": "x"}, ("src", "tgt"), "pair 1")


def test_memory_stays_bounded(tmp_path: Path) -> None:
    """A stream is written to disk while it is read: at most one record is in memory."""
    import gc
    import weakref

    class Text(str):
        __slots__ = ("__weakref__",)

    alive: list[weakref.ref[Text]] = []
    most = 0

    def stream() -> Iterator[tuple[str, str]]:
        nonlocal most
        for number in range(300):
            most = max(most, sum(ref() is not None for ref in alive))
            text = Text(f"sentence {number} is here")
            alive.append(weakref.ref(text))
            yield text, "ein Satz"
            del text
        gc.collect()

    prepare(stream(), tmp_path / "data", no_filter=["all"])
    assert most <= 3
