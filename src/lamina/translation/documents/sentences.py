"""Sentence splitting: by `sentencex`'s rules for many languages if installed, otherwise by a few built-in rules."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Any

ABBREVIATIONS = frozenset(
    {
        "mr", "mrs", "ms", "dr", "prof", "st", "sr", "jr", "vs", "etc", "e.g", "i.e", "cf", "no", "vol", "fig", "eq",
        "al", "dept", "inc", "ltd", "co", "corp", "gen", "col", "lt", "sgt", "rev", "hon", "z.b", "d.h", "u.a", "usw",
        "bzw", "ca", "nr", "str", "abs", "bspw", "evtl", "ggf", "hr", "fr", "geb", "jh", "s", "o.ä", "m.e", "p", "ex",
        "env", "av", "mme", "mlle",
    }
)  # fmt: skip
END = re.compile(r"(?<![.!?…])[.!?…]++[\"'”’»)\]]*+(?=\s)|[。！？]++[」』”）]*+")
LONG_LINE = 10_000  # characters: sentencex takes quadratic time where a line has thousands of sentences
LONGEST_WORD = 40  # characters; no abbreviation is longer
SMALL = re.compile(r"\s+[a-zà-öø-ÿ]")


def split_sentences(text: str, language: str) -> list[str]:
    """The sentences of a text, each with the space after it: joined they are the text again."""
    segment = find_segmenter()
    if segment is None or len(text) > LONG_LINE:
        return split_by_rules(text)
    return locate(text, segment(language, text))


@cache
def find_segmenter() -> Any:
    """sentencex's function, if it is installed."""
    try:
        from sentencex import segment
    except ImportError:
        return None
    return segment


def locate(text: str, sentences: Iterable[str]) -> list[str]:
    """Sentences found by a library, with the text between them; anything it changed is taken from the original."""
    starts: list[int] = []
    position = 0
    for sentence in sentences:
        core = sentence.strip()
        start = text.find(core, position) if core else -1
        if start >= 0:
            starts.append(start)
            position = start + len(core)
    starts = [0, *starts[1:]] if starts else [0]
    return [text[start:end] for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]


def split_by_rules(text: str) -> list[str]:
    """A sentence ends at its punctuation, unless that belongs to an abbreviation, an initial or a number."""
    parts: list[str] = []
    start = 0
    for match in END.finditer(text):
        end = match.end()
        if match.group() == "." and is_abbreviation(text[max(start, match.start() - LONGEST_WORD) : match.start()]):
            continue
        if SMALL.match(text, end):
            continue
        while end < len(text) and text[end].isspace():
            end += 1
        if end > start:
            parts.append(text[start:end])
            start = end
    if start < len(text):
        parts.append(text[start:])
    return parts


def is_abbreviation(before: str) -> bool:
    """Whether the full stop after this belongs to its last word: `Dr`, `J`, `3`."""
    words = before.split()
    if not words:
        return False
    word = words[-1].lstrip("(\"'“„«[").casefold()
    return word in ABBREVIATIONS or (len(word) == 1 and word.isalpha()) or (word.isdigit() and len(word) < 3)
