"""Shards of an input file, read independently of each other; concatenated in order, they are the whole file."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO

from lamina.base.reading import decode_lines, open_bytes, read_lines
from lamina.errors import DataError, UsageError

BLOCK = 2**24  # bytes per read when counting lines
SUFFIXES = {"text": "txt", "jsonl": "jsonl", "tsv": "tsv", "moses": "moses"}


@dataclass(frozen=True)
class InputPart:
    """Shard `number` of `count`, counted from 1."""

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> InputPart:
        """Parse `I/N`."""
        match = re.fullmatch(r"(\d+)/(\d+)", text)
        if not match or not 1 <= int(match[1]) <= int(match[2]):
            raise UsageError(f"--shard must be I/N with I from 1 to N, such as 3/100, but is `{text}` instead.")
        return cls(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def name(self, form: str) -> str:
        """Name of the output file; shards sort by name in input order."""
        return f"part-{self.number:06}-of-{self.count:06}.{SUFFIXES[form]}"

    def pattern(self, form: str) -> str:
        """Glob pattern that matches the output files of all shards."""
        return f"part-*-of-{self.count:06}.{SUFFIXES[form]}"


def read_shard(path: Path, shard: InputPart, numbered: bool) -> tuple[int, Iterator[str]]:
    """Return the number of the shard's first line (1 unless `numbered`) and its lines.

    Plain files are split by byte offset at line ends, so a shard is found without reading those before it. For
    compressed files the lines are counted first.
    """
    if path.suffix in (".gz", ".zst"):
        total = sum(1 for _ in read_lines(path))
        start, end = ((number * total) // shard.count for number in (shard.number - 1, shard.number))
        return start + 1, islice(read_lines(path), start, end)
    try:
        size = path.stat().st_size
        with path.open("rb") as stream:
            start, end = (
                line_start(stream, number * size // shard.count) for number in (shard.number - 1, shard.number)
            )
            first = 1 + count_lines(stream, start) if numbered else 1
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({os.strerror(error.errno or 0)}).") from error
    return first, decode_lines(lines_between(path, start, end), f"{path} (from byte {start:,} on)")


def line_start(stream: IO[bytes], position: int) -> int:
    """Offset of the first line that starts at or after `position`."""
    if position == 0:
        return 0
    stream.seek(position - 1)
    stream.readline()
    return stream.tell()


def count_lines(stream: IO[bytes], end: int) -> int:
    """Count the lines that end before an offset."""
    stream.seek(0)
    lines = 0
    while (left := end - stream.tell()) > 0:
        lines += stream.read(min(BLOCK, left)).count(b"\n")
    return lines


def lines_between(path: Path, start: int, end: int) -> Iterator[bytes]:
    """Yield the lines that start in [start, end)."""
    with open_bytes(path) as stream:
        stream.seek(start)
        while stream.tell() < end:
            yield stream.readline()
