"""Sentence splitting with `sentencex` if it is installed, otherwise with a few built-in rules."""

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
LONGEST_WORD = 40  # characters to look back for an abbreviation
LOWERCASE_NEXT = re.compile(r"\s+[a-zà-öø-ÿ]")


def split_sentences(text: str, language: str) -> list[str]:
    """Split a text into sentences with their trailing white space; joining them gives back the text."""
    segment = find_segmenter()
    if segment is None or len(text) > LONG_LINE:
        return split_by_rules(text)
    return locate(text, segment(language, text))


@cache
def find_segmenter() -> Any:
    """Return `sentencex.segment`, or None if it is not installed."""
    try:
        from sentencex import segment
    except ImportError:
        return None
    return segment


def locate(text: str, sentences: Iterable[str]) -> list[str]:
    """Align segmented sentences with the original text, so that slices of it, white space included, are returned."""
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
    """Split at sentence-final punctuation, except after an abbreviation, an initial or a number."""
    parts: list[str] = []
    start = 0
    for match in END.finditer(text):
        end = match.end()
        if match.group() == "." and is_abbreviation(text[max(start, match.start() - LONGEST_WORD) : match.start()]):
            continue
        if LOWERCASE_NEXT.match(text, end):
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
    """Whether a full stop after this text belongs to its last word: `Dr`, `J`, `3`."""
    words = before.split()
    if not words:
        return False
    word = words[-1].lstrip("(\"'“„«[").casefold()
    return word in ABBREVIATIONS or (len(word) == 1 and word.isalpha()) or (word.isdigit() and len(word) < 3)
