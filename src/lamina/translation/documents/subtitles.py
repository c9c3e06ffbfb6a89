"""SubRip and WebVTT: translates the text of each cue; numbers, timings, settings and styles are kept verbatim."""

from __future__ import annotations

import re
from functools import partial

from lamina.translation.documents.document import Passage, Splitter, has_words, make_passages

TIMING = re.compile(r"^\s*(?:\d+:)?\d+:\d+[.,]\d+\s+-->\s+(?:\d+:)?\d+:\d+[.,]\d+")
MARKUP = re.compile(r"<[^<>\n]*>|\{[^{}\n]*\}")
LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|\Z)")
SPEAKER = re.compile(r"^(?:[-–—]\s*|\[[^\]]*\]\s*|>>\s*)+")


def read_subtitles(text: str, split: Splitter) -> list[str | Passage]:
    """Parse cues: the lines from a timing to the next blank line. All other lines are kept verbatim."""
    pieces: list[str | Passage] = []
    cue: list[str] = []
    inside = False
    for line in (match.group() for match in LINE.finditer(text) if match.group()):
        if inside and line.strip():
            cue.append(line)
            continue
        pieces += read_cue(cue, split)
        cue = []
        inside = bool(TIMING.match(line))
        pieces.append(line)
    return [*pieces, *read_cue(cue, split)]


def read_cue(lines: list[str], split: Splitter) -> list[str | Passage]:
    """Parse one cue as a single passage wrapped to the same number of lines, or line by line if any has a speaker or
    markup.
    """
    if not lines:
        return []
    bodies = [line.rstrip("\r\n") for line in lines]
    ends = [line[len(body) :] for line, body in zip(lines, bodies, strict=True)]
    if len(lines) > 1 and not any(MARKUP.search(body) or SPEAKER.match(body) for body in bodies):
        joined = " ".join(body.strip() for body in bodies)
        write = partial(wrap, shares=[len(body.strip()) for body in bodies], ends=ends[:-1])
        return [*make_passages(joined, split, write), ends[-1]] if has_words(joined) else [*lines]
    pieces: list[str | Passage] = []
    for body, end in zip(bodies, ends, strict=True):
        pieces += [*read_line(body, split), end]
    return pieces


def read_line(line: str, split: Splitter) -> list[str | Passage]:
    """Parse one line of a cue; speaker labels and markup are kept."""
    pieces: list[str | Passage] = []
    position = 0
    if speaker := SPEAKER.match(line):
        pieces.append(speaker.group())
        position = speaker.end()
    for match in MARKUP.finditer(line, position):
        pieces += [*make_passages(line[position : match.start()], split, one_line), match.group()]
        position = match.end()
    return [*pieces, *make_passages(line[position:], split, one_line)]


def one_line(text: str) -> str:
    """Format a translation so that it neither ends the cue early nor looks like a timing."""
    return " ".join(text.split()).replace("-->", "→")


def wrap(text: str, shares: list[int], ends: list[str]) -> str:
    """Wrap text to the cue's number of lines in about the same proportions; no line is empty."""
    words = one_line(text).split(" ")
    total = sum(shares)
    lines: list[str] = []
    for number in range(len(shares) - 1):
        lines_left = len(shares) - 1 - number  # each needs at least one word
        target_size = sum(len(word) + 1 for word in words) * shares[number] / max(1, total)
        taken, size = 1, len(words[0])
        while len(words) - taken > lines_left and size + (len(words[taken]) + 1) / 2 < target_size:
            size += len(words[taken]) + 1
            taken += 1
        if len(words) - taken < 1:
            break
        lines.append(" ".join(words[:taken]))
        words, total = words[taken:], total - shares[number]
    lines.append(" ".join(words))
    return "".join(line + end for line, end in zip(lines, [*ends[: len(lines) - 1], ""], strict=True))
