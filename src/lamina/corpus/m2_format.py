"""The .m2 format (Dahlmeier & Ng 2012): a tokenised sentence and every annotator's corrections of it.

    S This are a sentence .
    A 1 2|||SVA|||is|||REQUIRED|||-NONE-|||0
    A -1 -1|||noop|||-NONE-|||REQUIRED|||-NONE-|||1

An A line holds start and end word, type, correction (alternatives between `||`), two unused fields and the annotator.
`noop` marks a sentence in which an annotator found nothing to correct.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from lamina.base.wording import counted
from lamina.errors import DataError

Words = tuple[str, ...]


@dataclass(frozen=True)
class Edit:
    """Replaces words `start` to `end` by one of `corrections`; an insertion has `start == end`."""

    start: int
    end: int
    corrections: tuple[Words, ...]


@dataclass
class Annotated:
    """A sentence and the edits of each annotator, in file order."""

    words: Words
    annotators: dict[str, list[Edit]] = field(default_factory=dict)


def parse_m2(lines: Iterable[str], name: str = "m2") -> list[Annotated]:
    """Parse all sentences; one without A lines gets an annotator `0` without edits."""
    sentences = list(stream_m2(lines, name))
    for sentence in sentences:
        if not sentence.annotators:
            sentence.annotators["0"] = []
    return sentences


def stream_m2(lines: Iterable[str], name: str = "m2") -> Iterator[Annotated]:
    """Parse sentence by sentence, each with the annotators of its A lines."""
    sentence: Annotated | None = None
    for number, line in enumerate(lines, start=1):
        if line == "S" or line.startswith("S "):
            if sentence is not None:
                yield sentence
            sentence = Annotated(tuple(line[2:].split()))
        elif line.startswith("A ") and sentence is not None:
            add_edit(sentence, line, f"{name}:{number}")
        elif line.strip():
            raise DataError(f"{name}:{number}: not .m2: must be an S line, an A line that follows one, or empty.")
    if sentence is not None:
        yield sentence


def add_edit(sentence: Annotated, line: str, where: str) -> None:
    """Parse an A line and add its edit to the sentence."""
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
        raise DataError(
            f"{where}: words {start} to {end} lie outside a sentence of {counted(len(sentence.words), 'word')}."
        )
    alternatives = [() if each == "-NONE-" else tuple(each.split()) for each in corrections.split("||")]
    edits.append(Edit(start, end, tuple(alternatives)))


def apply_edits(words: Words, edits: Sequence[Edit]) -> Words:
    """Apply the first correction of every edit; of two that overlap, the earlier."""
    corrected: list[str] = []
    at = 0
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        if edit.start >= at and edit.corrections:
            corrected += [*words[at : edit.start], *edit.corrections[0]]
            at = edit.end
    return (*corrected, *words[at:])


def write_m2(words: Words, edits: Sequence[Edit]) -> list[str]:
    """Format a sentence and its edits as lines, with the types M (missing), U (unnecessary) and R (replacement)."""
    lines = ["S " + " ".join(words)]
    for edit in edits:
        kind = "M" if edit.start == edit.end else "R" if edit.corrections[0] else "U"
        correction = " ".join(edit.corrections[0])
        lines.append(f"A {edit.start} {edit.end}|||{kind}|||{correction}|||REQUIRED|||-NONE-|||0")
    if not edits:
        lines.append("A -1 -1|||noop|||-NONE-|||REQUIRED|||-NONE-|||0")
    return [*lines, ""]
