"""`lamina.prepare` from Python: pairs, records of `datasets`, one-shot iterators."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lamina
from lamina.corpus.records import parse_record, read_records
from lamina.corpus.sources import read_pairs
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


EN_DE = [{"en": source, "de": target} for source, target in PAIRS]
DE_EN = [{"de": target, "en": source} for source, target in PAIRS]


def texts(data: lamina.PreparedData, split: str) -> tuple[str, str]:
    source, target = data.split(split)[0]
    return data.text.source.decode(source), data.text.target.decode(target)


@pytest.mark.parametrize("valid", [EN_DE, DE_EN, PAIRS])
def test_the_training_data_fix_the_order_of_columns(tmp_path: Path, valid: Any) -> None:
    data = lamina.prepare(EN_DE, valid, tmp_path / "data", test=DE_EN, workers=1, progress=False)
    assert "en → de" in repr(data)
    assert all(texts(data, split) == PAIRS[0] for split in ("valid", "test"))


def test_languages_select_columns(tmp_path: Path) -> None:
    data = lamina.prepare(DE_EN, EN_DE, tmp_path / "data", langs=("en", "de"), workers=1, progress=False)
    assert texts(data, "valid") == PAIRS[0]
    with pytest.raises(DataError, match=r"train, pair 1: has the columns `de`, `en`\. `en` and `fr` are required\.$"):
        lamina.prepare(DE_EN, EN_DE, tmp_path / "other", langs=("en", "fr"), progress=False)


def test_columns_that_are_no_languages_keep_their_order(tmp_path: Path) -> None:
    records = [{"body": source, "subject": target} for source, target in PAIRS]
    data = lamina.prepare(records, records[:2], tmp_path / "data", langs=("en", "en"), workers=1, progress=False)
    assert texts(data, "valid") == PAIRS[0]


@pytest.mark.parametrize("records", [EN_DE, DE_EN, [{"translation": record} for record in DE_EN]])
def test_a_test_set_is_read_in_the_direction_of_the_run(records: Any) -> None:
    assert read_pairs(records, "test", ("en", "de")) == tuple(map(list, zip(*PAIRS, strict=True)))


@pytest.mark.parametrize(
    ("langs", "record", "message"),
    [
        (("en", "de"), '{"de": "b", "en": "a"}', ""),
        (("en", "de"), '{"src": "a", "tgt": "b"}', ""),
        (("en", "en"), '{"src": "a", "tgt": "b"}', ""),
        (("en", "de"), '{"a": "x", "b": "y"}', "only `a`, `b`. `src` and `tgt` or `en` and `de` are required."),
        (("en", "en"), '{"en": "x"}', "only `en`. `src` and `tgt` are required."),
    ],
)
def test_a_file_of_pairs_is_read_in_the_direction_of_the_run(
    tmp_path: Path, langs: tuple[str, str], record: str, message: str
) -> None:
    path = tmp_path / "test.jsonl"
    path.write_text(record + "\n")
    if message:
        with pytest.raises(DataError, match=re.escape(message)):
            read_pairs(path, "test", langs)
    else:
        assert read_pairs(path, "test", langs) == (["a"], ["b"])


def test_columns_of_a_test_set_are_not_guessed() -> None:
    message = r"test, pair 1: has the columns `a`, `b`\. `en` and `de` are required, or pairs\.$"
    with pytest.raises(DataError, match=message):
        read_pairs([{"a": "x", "b": "y"}], "test", ("en", "de"))


def test_swapped_files_are_rejected(tmp_path: Path) -> None:
    for language, lines in zip(("en", "de"), zip(*PAIRS, strict=True), strict=True):
        (tmp_path / f"text.{language}").write_text("\n".join(lines) + "\n")
    right, swapped = [tuple(tmp_path / f"text.{each}" for each in pair) for pair in (("en", "de"), ("de", "en"))]
    message = r"`valid`: source and target are swapped: \S+text.de \S+text.en, but the direction is en → de\.$"
    with pytest.raises(UsageError, match=message):
        lamina.prepare(right, swapped, tmp_path / "data", workers=1, progress=False)  # type: ignore[arg-type]


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
        ({"en": ["a"], "de": ["b"]}, r"is a mapping of two columns; pass zip\(test\['en'\], test\['de'\]\)\.$"),
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
