"""Which training pairs to keep, and how many are dropped for which reason."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lamina.corpus.filters import REASONS, Filters, Reason
from lamina.corpus.reading import Pair
from lamina.text.normalise import normalise

LARGE_ALPHABET = 1000  # characters; in such text SentencePiece need not cover rare ones
SHOWN = 5  # line numbers recorded per reason


@dataclass(frozen=True)
class Cleaning:
    """The pairs to keep, the number of dropped ones by reason, and the amount of text that is left."""

    keep: NDArray[np.bool_]
    dropped: dict[Reason, int]
    first_lines: dict[Reason, list[int]]  # numbered from 1
    characters: int
    alphabet: int  # distinct characters, counted up to `LARGE_ALPHABET`

    @property
    def kept(self) -> int:
        """The number of kept pairs."""
        return int(self.keep.sum())


def clean(pairs: Iterable[Pair], filters: Filters) -> Cleaning:
    """Filter pairs in one pass, with 17 bytes of memory for each: its hash (for duplicates), length and decision."""
    alphabet: set[str] = set()
    keep, hashes, sizes = bytearray(), array("q"), array("l")
    dropped: dict[Reason, int] = dict.fromkeys(REASONS, 0)
    first_lines: dict[Reason, list[int]] = {reason: [] for reason in REASONS}

    def drop(reason: Reason, line: int) -> None:
        dropped[reason] += 1
        if len(first_lines[reason]) < SHOWN:
            first_lines[reason].append(line)

    for line, (source, target) in enumerate(pairs, start=1):
        source, target = normalise(source), normalise(target)
        reason = filters.reason(source, target)
        keep.append(reason is None)
        if reason is not None:
            drop(reason, line)
            continue
        sizes.append(len(source) + len(target))
        if len(alphabet) < LARGE_ALPHABET:
            alphabet.update(source, target)
        if "duplicate" in filters.active:
            hashes.append(hash((source, target)))
    kept = np.frombuffer(keep, dtype=np.bool_).copy()
    characters = sum(sizes)
    if "duplicate" in filters.active:
        duplicates = _find_duplicates(np.frombuffer(hashes, dtype=np.int64))
        characters -= sum(sizes[index] for index in duplicates)
        for index in np.flatnonzero(kept)[duplicates]:
            kept[index] = False
            drop("duplicate", int(index) + 1)
    return Cleaning(kept, dropped, first_lines, characters, len(alphabet))


def _find_duplicates(hashes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Ascending indices of values that occurred earlier."""
    order = np.argsort(hashes, kind="stable")
    again = hashes[order[1:]] == hashes[order[:-1]]
    return np.sort(order[1:][again])
