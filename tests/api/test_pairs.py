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
    with pytest.raises(DataError, match=r"`de`, `en`\. `en` and `fr` are expected\. Name the two columns with fields="):
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
        (
            ("en", "de"),
            '{"a": "x", "b": "y"}',
            "only `a`, `b`. `src` and `tgt` are required, or the languages of the run.",
        ),
        (("en", "en"), '{"en": "x"}', "only `en`. `src` and `tgt` are required, or the languages of the run."),
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
    message = r"`a`, `b`\. `en` and `de` or `src` and `tgt` or `source` and `target` are required\.$"
    with pytest.raises(DataError, match=message):
        read_pairs([{"a": "x", "b": "y"}], "test", ("en", "de"))


def write_sides(folder: Path) -> dict[str, Path]:
    for language, lines in zip(("en", "de"), zip(*PAIRS, strict=True), strict=True):
        (folder / f"text.{language}").write_text("\n".join(lines) + "\n")
    return {language: folder / f"text.{language}" for language in ("en", "de")}


def test_swapped_files_are_rejected(tmp_path: Path) -> None:
    side = write_sides(tmp_path)
    right, swapped = (side["en"], side["de"]), (side["de"], side["en"])
    message = r"`valid`: source and target are swapped: \S+text.de \S+text.en, but the direction is en → de\.$"
    with pytest.raises(UsageError, match=message):
        lamina.prepare(right, swapped, tmp_path / "data", workers=1, progress=False)
    with pytest.raises(UsageError, match="`train`: source and target are swapped"):
        lamina.prepare(swapped, swapped, tmp_path / "data", langs=["en", "de"], progress=False)  # type: ignore[arg-type]


def test_the_subwords_of_the_other_direction_can_be_used(tmp_path: Path) -> None:
    side = write_sides(tmp_path)
    right, swapped = (side["en"], side["de"]), (side["de"], side["en"])
    lamina.prepare(right, right, tmp_path / "data", workers=1, progress=False)
    back = lamina.prepare(swapped, swapped, tmp_path / "back", text_from=tmp_path / "data", workers=1, progress=False)
    assert texts(back, "valid") == PAIRS[0][::-1]
    with pytest.raises(UsageError, match="but the direction is de → en"):
        lamina.prepare(swapped, right, tmp_path / "other", text_from=tmp_path / "data", progress=False)


def test_training_files_name_the_columns_of_validation_records(tmp_path: Path) -> None:
    side = write_sides(tmp_path)
    data = lamina.prepare((side["en"], side["de"]), DE_EN, tmp_path / "data", workers=1, progress=False)
    assert texts(data, "valid") == PAIRS[0]


def test_common_names_may_differ_between_splits(tmp_path: Path) -> None:
    valid = [{"tgt": target, "src": source} for source, target in PAIRS]
    data = lamina.prepare(EN_DE, valid, tmp_path / "data", workers=1, progress=False)
    assert texts(data, "valid") == PAIRS[0]


def test_numbered_columns_keep_their_order(tmp_path: Path) -> None:
    records = [dict(enumerate(pair)) for pair in PAIRS]
    data = lamina.prepare(records, records, tmp_path / "data", langs=("en", "de"), workers=1, progress=False)
    assert texts(data, "valid") == PAIRS[0]
    assert read_pairs(records, "test")[0][0] == PAIRS[0][0]


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
