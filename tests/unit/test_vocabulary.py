from __future__ import annotations

from pathlib import Path

import pytest

from lamina.errors import DataError
from lamina.interop.fairseq.dictionary import read_dictionary
from lamina.text.vocabulary import SPECIALS, Vocabulary


def test_round_trip_through_a_file(tmp_path: Path) -> None:
    vocabulary = Vocabulary((*SPECIALS, "a", "ä@@", "\u2028", "\x85", " "))
    vocabulary.save(tmp_path / "v.txt")
    assert Vocabulary.load(tmp_path / "v.txt") == vocabulary


def test_encode_and_decode() -> None:
    vocabulary = Vocabulary((*SPECIALS, "a", "b"))
    assert vocabulary.encode(["b", "a", "c"]) == [5, 4, 3, 2]
    assert vocabulary.decode([0, 5, 4, 3, 2, 1, 1]) == ["b", "a", "<unk>"]


def test_invalid_vocabularies() -> None:
    with pytest.raises(DataError, match="must start with <s> <pad> </s> <unk>"):
        Vocabulary(("a", "b"))
    with pytest.raises(DataError, match="Duplicate vocabulary symbol `a`"):
        Vocabulary((*SPECIALS, "a", "b", "a"))


def test_fairseq_dictionary(tmp_path: Path) -> None:
    path = tmp_path / "dict.en.txt"
    path.write_bytes("a 10\n\u2028 9\nb c 8\r\n".encode())
    assert read_dictionary(path).symbols == (*SPECIALS, "a", "\u2028", "b c")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a 10\nb\n", r"dict.txt:2: must be a symbol and its count, but is `b` instead"),
        (b"a 10\nb x\n", r"dict.txt:2: must be a symbol and its count"),
        (b"a 10\n\xff 3\n", r"dict.txt: not UTF-8 at byte 5"),
    ],
)
def test_damaged_fairseq_dictionary(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "dict.txt"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_dictionary(path)
