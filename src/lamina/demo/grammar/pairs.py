"""The corpus: any number of distinct sentence pairs per split."""

from __future__ import annotations

import random
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Literal, get_args

from lamina.base.files import StrPath, write_file
from lamina.demo.grammar.english import write_english
from lamina.demo.grammar.german import write_german
from lamina.demo.grammar.sentence_drawing import SentenceDrawer
from lamina.errors import UsageError

Split = Literal["train", "valid", "test"]

_SHORTEST, _LONGEST = 4, 25  # words per sentence
_MAX_DRAWS = 50_000  # without a new pair


def demo_pairs(split: Split, count: int, seed: int = 1) -> Iterator[tuple[str, str]]:
    """The first `count` pairs (English, German) of a split: all distinct, and with no sentence of another split."""
    if split not in get_args(Split):
        raise UsageError(f"split: must be one of {', '.join(get_args(Split))}, but is `{split}` instead.")
    if count < 0:
        raise UsageError(f"count: must not be negative, but is {count} instead.")
    return _pairs(split, count, seed)


def write_demo(folder: StrPath, train: int, valid: int, test: int, seed: int = 1) -> None:
    """Write this many pairs of each split as `SPLIT.en` and `SPLIT.de`, ready for `lamina prepare`."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    counts: dict[Split, int] = {"train": train, "valid": valid, "test": test}
    for split, count in counts.items():
        pairs = list(demo_pairs(split, count, seed))
        for side, language in enumerate(("en", "de")):
            text = "".join(f"{pair[side]}\n" for pair in pairs)
            write_file(folder / f"{split}.{language}", text)


def _pairs(split: Split, count: int, seed: int) -> Iterator[tuple[str, str]]:
    drawer = SentenceDrawer(random.Random(seed))
    seen: set[bytes] = set()
    while len(seen) < count:
        for _ in range(_MAX_DRAWS):
            sentence = drawer.sentence()
            english = write_english(sentence)
            digest = blake2b(english.encode(), digest_size=8).digest()
            if _split_of(digest) != split or digest in seen or not _has_valid_length(english):
                continue
            german = write_german(sentence)
            if _has_valid_length(german):
                break
        else:
            raise UsageError(
                f"count: split `{split}` yields only {len(seen):,} distinct pairs "
                f"({_MAX_DRAWS:,} draws produced no others), but {count:,} were requested."
            )
        seen.add(digest)
        yield english, german


def _split_of(digest: bytes) -> Split:
    """By the English sentence alone: 90% train, 5% valid, 5% test. German follows, since it is its function."""
    percent = digest[0] * 100 // 256
    return "train" if percent < 90 else "valid" if percent < 95 else "test"


def _has_valid_length(text: str) -> bool:
    return _SHORTEST <= text.count(" ") + 1 <= _LONGEST
