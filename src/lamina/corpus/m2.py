"""Pairs of an erroneous sentence and its correction, from an .m2 file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lamina.base.reading import read_lines
from lamina.corpus.m2_format import apply_edits, stream_m2
from lamina.corpus.reading import Pair
from lamina.errors import DataError


@dataclass(frozen=True)
class M2File:
    """The pairs of an .m2 file: one for each distinct correction of a sentence, or for the chosen annotator's."""

    path: Path
    annotator: str | None = None

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files to read."""
        return (self.path,)

    @property
    def fields(self) -> str | None:
        """The chosen annotator, which determines the pairs along with the file."""
        return self.annotator

    def pairs(self) -> Iterator[Pair]:
        """Read every pair; a sentence without A lines is its own correction."""
        seen: set[str] = set()
        chosen = 0
        for sentence in stream_m2(read_lines(self.path), str(self.path)):
            seen |= sentence.annotators.keys()
            source = " ".join(sentence.words)
            if not sentence.annotators:
                yield source, source
            corrections = {
                " ".join(apply_edits(sentence.words, edits)): None  # annotators who agree count once
                for annotator, edits in sentence.annotators.items()
                if self.annotator in (None, annotator)
            }
            chosen += len(corrections)
            yield from ((source, correction) for correction in corrections)
        if self.annotator is not None and seen and not chosen:
            names = ", ".join(sorted(seen))
            raise DataError(f"{self.path}: has no annotator `{self.annotator}`, only {names}.")
