"""The .m2 format (Dahlmeier & Ng 2012): a tokenised sentence and every annotator's corrections of it.

    S This are a sentence .
    A 1 2|||SVA|||is|||REQUIRED|||-NONE-|||0
    A -1 -1|||noop|||-NONE-|||REQUIRED|||-NONE-|||1

An A line holds start and end word, type, correction (alternatives between `||`), two unused fields and the annotator.
`noop` says that an annotator found nothing to correct.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from lamina.errors import DataError

Words = tuple[str, ...]


@dataclass(frozen=True)
class Edit:
    """Words `start` to `end` become one of `corrections`; start equals end where something is inserted."""

    start: int
    end: int
    corrections: tuple[Words, ...]


@dataclass
class Annotated:
    """A sentence and the edits of each annotator, in the order of the file."""

    words: Words
    annotators: dict[str, list[Edit]] = field(default_factory=dict)


def parse_m2(lines: Iterable[str], name: str = "m2") -> list[Annotated]:
    """All sentences; one without A lines has one annotator who found nothing to correct."""
    sentences: list[Annotated] = []
    for number, line in enumerate(lines, start=1):
        if line == "S" or line.startswith("S "):
            sentences.append(Annotated(tuple(line[2:].split())))
        elif line.startswith("A ") and sentences:
            add_edit(sentences[-1], line, f"{name}:{number}")
        elif line.strip():
            raise DataError(f"{name}:{number}: must be an S line, an A line of a sentence or empty.")
    for sentence in sentences:
        if not sentence.annotators:
            sentence.annotators["0"] = []
    return sentences


def add_edit(sentence: Annotated, line: str, where: str) -> None:
    """An A line."""
    fields = line[2:].split("|||")
    try:
        span, kind, corrections, _, _, annotator = fields
        start, end = map(int, span.split())
    except ValueError as error:
        raise DataError(
            f"{where}: must be `A START END|||TYPE|||CORRECTION|||REQUIRED|||COMMENT|||ANNOTATOR`, but is `{line}`."
        ) from error
    edits = sentence.annotators.setdefault(annotator.strip(), [])
    if kind == "noop":
        return
    if not 0 <= start <= end <= len(sentence.words):
        raise DataError(f"{where}: words {start} to {end} lie outside a sentence of {len(sentence.words)} words.")
    alternatives = [() if each == "-NONE-" else tuple(each.split()) for each in corrections.split("||")]
    edits.append(Edit(start, end, tuple(alternatives)))
