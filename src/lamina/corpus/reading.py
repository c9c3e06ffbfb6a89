"""Parallel text from one or two files, plain, `.gz` or `.zst`; lines end with \\n only."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from lamina.base.reading import read_lines
from lamina.base.wording import counted
from lamina.corpus.drift import first_drift
from lamina.errors import DataError, UsageError
from lamina.names import option

Pair = tuple[str, str]


def language_of(path: Path) -> str | None:
    """Language code in a file's suffix, ignoring compression suffixes."""
    suffixes = [suffix for suffix in path.suffixes if suffix not in (".gz", ".zst")]
    return suffixes[-1].lstrip(".") if suffixes else None


@dataclass(frozen=True)
class TwoFiles:
    """A source and a target file, aligned by line."""

    source: Path
    target: Path

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files to read."""
        return (self.source, self.target)

    def pairs(self) -> Iterator[Pair]:
        """Read every pair; raise at the end of the shorter file if their lengths differ."""
        sources, targets = read_lines(self.source), read_lines(self.target)
        for number, (source, target) in enumerate(zip_longest(sources, targets)):
            if source is None or target is None:
                rest = 1 + sum(1 for _ in (targets if source is None else sources))
                raise self._mismatch(number, number + rest, source is None)
            yield source, target

    @property
    def languages(self) -> tuple[str, str] | None:
        """The suffixes of the files, if both have one."""
        source, target = language_of(self.source), language_of(self.target)
        return (source, target) if source and target else None

    def check_direction(self, langs: tuple[str, str] | None, name: str) -> None:
        """Raise if the suffixes are the given languages, but in the wrong order."""
        if langs is not None and langs[0] != langs[1] and self.languages == (langs[1], langs[0]):
            raise UsageError(
                f"{name}: source and target are swapped: {self.source} {self.target}, but the direction is "
                f"{langs[0]} → {langs[1]}."
            )

    def _mismatch(self, shorter: int, longer: int, source_ended: bool) -> DataError:
        if not all(path.is_file() for path in self.paths):  # a pipe cannot be read again
            counts = (shorter, longer) if source_ended else (longer, shorter)
            return DataError(f"{self.source} has {counted(counts[0], 'line')}, but {self.target} has {counts[1]:,}.")
        sources, targets = ([len(line) for line in read_lines(path)] for path in self.paths)
        return DataError(
            f"{self.source} has {counted(len(sources), 'line')}, but {self.target} has {len(targets):,}. "
            f"They seem to drift apart at line {first_drift(sources, targets) + 1:,}."
        )


@dataclass(frozen=True)
class OneFile:
    """Pairs in one file: `.tsv` with two columns, or `.jsonl` with two fields."""

    path: Path
    fields: tuple[str, str] | None = None  # the two fields of `.jsonl`; None is `src` and `tgt`, or `langs`
    line_break: str = " "  # replaces line breaks within a field
    langs: tuple[str, str] | None = None  # the languages of a run, which fields may be named after

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files to read."""
        return (self.path,)

    def pairs(self) -> Iterator[Pair]:
        """Read every pair."""
        kind = self.path.with_suffix("").suffix if self.path.suffix in (".gz", ".zst") else self.path.suffix
        parsers = {".tsv": parse_tsv, ".jsonl": self._parse_json}
        if kind not in parsers:
            if self.path.is_dir():
                raise UsageError(f"{self.path}: is a folder; give a file of pairs, two parallel files, or pairs.")
            found = f"is `{kind}` instead" if kind else "its name has no suffix"
            raise UsageError(f"{self.path}: a file of pairs must be .tsv or .jsonl, but {found}.")
        for number, line in enumerate(read_lines(self.path), start=1):
            yield parsers[kind](line, f"{self.path}:{number}")

    def _parse_json(self, line: str, where: str) -> Pair:
        try:
            record: Any = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{where}: not JSON ({error}).") from error
        if isinstance(record, dict) and isinstance(record.get("translation"), dict):
            record = record["translation"]
        if not isinstance(record, dict):
            raise DataError(f"{where}: must be a JSON object, but has type `{type(record).__name__}` instead.")
        names = self.fields or ("src", "tgt")
        if self.langs is not None and self.langs[0] != self.langs[1] and set(self.langs) <= set(record):
            names = self.langs
        source, target = (self._field(record, name, where) for name in names)
        return source, target

    def _field(self, record: dict[str, Any], name: str, where: str) -> str:
        if name not in record:
            found = ", ".join(f"`{key}`" for key in record)
            hint = f"Name the two fields with {option('fields')}."
            if self.langs is not None:
                hint = "`src` and `tgt` are required, or the languages of the run."
            raise DataError(f"{where}: has no field `{name}`, only {found}. {hint}")
        if not isinstance(record[name], str):
            kind = type(record[name]).__name__
            raise DataError(f"{where}: field `{name}` must be text, but has type `{kind}` instead.")
        text = str(record[name])
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise DataError(f"{where}: field `{name}` contains a lone surrogate, which is not valid Unicode text.")
        return text.replace("\r\n", "\n").replace("\n", self.line_break)


def parse_tsv(line: str, where: str) -> Pair:
    """Parse a line with two tab-separated columns."""
    columns = line.split("\t")
    if len(columns) != 2:
        raise DataError(f"{where}: must have two columns, but has {len(columns)} instead.")
    return columns[0], columns[1]


def read_test(source: Path, target: Path) -> tuple[list[str], list[str]]:
    """Read both sides of a test set, which must not be empty."""
    pairs = list(TwoFiles(source, target).pairs())
    if not pairs:
        raise DataError(f"{source}: has no lines.")
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]
