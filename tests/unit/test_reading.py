"""Lines are separated by \\n only, in all input formats."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
import zstandard

from lamina.base.reading import read_lines
from lamina.corpus.reading import OneFile, TwoFiles
from lamina.errors import DataError, UsageError

ODD = "a\u2028b\n\x00nul\r\nform\x0cfeed\x0b\n\x85nel\n\nlast"
LINES = ["a\u2028b", "\x00nul", "form\x0cfeed\x0b", "\x85nel", "", "last"]


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["plain", "bom"])
@pytest.mark.parametrize("end", ["", "\n"], ids=["open", "closed"])
def test_only_newlines_split(suffix: str, mark: bytes, end: str, tmp_path: Path) -> None:
    path = tmp_path / f"text.en{suffix}"
    content = mark + (ODD + end).encode()
    pack = {"": bytes, ".gz": gzip.compress, ".zst": zstandard.ZstdCompressor().compress}[suffix]
    path.write_bytes(pack(content))
    assert list(read_lines(path)) == LINES


def test_an_empty_file_has_no_lines_and_a_newline_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"")
    assert list(read_lines(path)) == []
    path.write_bytes(b"\n")
    assert list(read_lines(path)) == [""]


def test_invalid_utf8_is_named_by_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "text.de"
    path.write_bytes(b"fine\nalso fine\nb\xfcse\n")
    with pytest.raises(DataError, match=r"text\.de:3: not UTF-8 \(byte 0xfc at column 2\)"):
        list(read_lines(path))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.gz", b"not gzip", "a.gz: damaged, or not in the format that its suffix indicates"),
        ("a.gz", gzip.compress(b"text\n" * 1000)[:-9], "a.gz: damaged"),
        ("a.zst", b"not zstd", "a.zst: damaged"),
    ],
    ids=["not-gzip", "cut-gzip", "not-zstd"],
)
def test_damaged_files(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        list(read_lines(tmp_path / name))


def test_missing_files_and_folders(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none: not found"):
        list(read_lines(tmp_path / "none"))
    with pytest.raises(DataError, match="is a folder"):
        list(read_lines(tmp_path))


def write_two(folder: Path, sources: list[str], targets: list[str]) -> TwoFiles:
    for name, lines in (("t.en", sources), ("t.de", targets)):
        (folder / name).write_text("".join(f"{line}\n" for line in lines), newline="\n")
    return TwoFiles(folder / "t.en", folder / "t.de")


@pytest.mark.parametrize("lost", [0, 1, 57, 148])
@pytest.mark.parametrize("side", [0, 1])
def test_parallel_files_of_different_length(lost: int, side: int, tmp_path: Path) -> None:
    lines = ["x" * (5 + (n * 37) % 83) for n in range(150)]
    files = [list(lines), list(lines)]
    del files[side][lost : lost + 2]
    left = 150 - min(2, 150 - lost)
    with pytest.raises(DataError) as caught:
        list(write_two(tmp_path, *files).pairs())
    counts = (left, 150) if side == 0 else (150, left)
    assert f"t.en has {counts[0]} lines, but {tmp_path / 't.de'} has {counts[1]}" in str(caught.value)
    assert f"They seem to drift apart at line {lost + 1}." in str(caught.value)


def one(folder: Path, name: str, text: str, fields: tuple[str, str] | None = None) -> list[tuple[str, str]]:
    (folder / name).write_text(text)
    return list(OneFile(folder / name, fields).pairs())


def test_tsv(tmp_path: Path) -> None:
    assert one(tmp_path, "p.tsv", "a b\tc d\n\t\n") == [("a b", "c d"), ("", "")]
    with pytest.raises(DataError, match=r"p.tsv:2: must have two columns, but has 3 instead"):
        one(tmp_path, "p.tsv", "a\tb\na\tb\tc\n")


def test_jsonl(tmp_path: Path) -> None:
    plain = json.dumps({"src": "a\u2028b", "tgt": "c\nd"})
    assert one(tmp_path, "p.jsonl", f"{plain}\n") == [("a\u2028b", "c d")]
    nested = json.dumps({"translation": {"en": "a", "de": "b"}})
    assert one(tmp_path, "p.jsonl", nested, ("en", "de")) == [("a", "b")]
    named = json.dumps({"body": "long", "subject": "short", "id": 3})
    assert one(tmp_path, "p.jsonl", named, ("body", "subject")) == [("long", "short")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "p.jsonl:1: not JSON"),
        ("[1]", "must be a JSON object, but has type `list` instead"),
        ('{"en": "a"}', "has no field `src`, only `en`. Name the two fields with `fields`"),
        ('{"src": "a", "tgt": 3}', "field `tgt` must be text, but has type `int` instead"),
    ],
)
def test_bad_jsonl(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        one(tmp_path, "p.jsonl", text)


def test_unknown_suffixes_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"must be \.tsv or \.jsonl, but is `\.csv` instead"):
        one(tmp_path, "p.csv", "a,b\n")
