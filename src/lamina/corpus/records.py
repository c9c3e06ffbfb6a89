"""Pairs from Python: any iterable of pairs, or of records such as those of a Hugging Face `datasets` split."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeGuard

import zstandard

from lamina.base.files import StrPath
from lamina.corpus.reading import Pair
from lamina.errors import DataError, UsageError

KNOWN_FIELDS = (("src", "tgt"), ("source", "target"))
LANGUAGE = re.compile(r"[a-z]{2}(?:[-_][A-Za-z]+)?|[a-z]{3}_[A-Z][a-z]{3}")  # names of columns that are languages
Fields = tuple[str, str]


@dataclass(frozen=True)
class Columns:
    """Which columns of records are source and target."""

    fields: Fields | None = None  # their names
    likely: tuple[Fields, ...] = ()  # likely names, such as the languages of source and target
    in_order: bool = True  # whether two columns with other names are source and target in their order

    def choose(self, record: Mapping[str, Any], where: str) -> Fields:
        """The names of source and target in a record: the given, likely or common ones, or the only two."""
        names = list(record)
        known = (self.fields,) if self.fields is not None else (*self.likely, *KNOWN_FIELDS)
        for pair in known:
            if set(pair) <= set(names):
                return pair
        expected = {name for pair in self.likely for name in pair}
        if self.fields is None and self.in_order and len(names) == 2 and expected.isdisjoint(names):
            return names[0], names[1]
        found = ", ".join(f"`{name}`" for name in names)
        wanted = f"{' or '.join(f'`{source}` and `{target}`' for source, target in known)} are required."
        if self.fields is None and self.in_order:
            naming = "Name the two columns with fields=(source, target)."
            wanted = f"`{known[0][0]}` and `{known[0][1]}` are expected. {naming}" if self.likely else naming
        raise DataError(f"{where}: has the columns {found}. {wanted}")


ANY = Columns()


def distinct(langs: Fields | None) -> tuple[Fields, ...]:
    """The languages of source and target as likely names of columns, unless they are the same."""
    return (langs,) if langs is not None and langs[0] != langs[1] else ()


def is_path(given: object) -> TypeGuard[StrPath]:
    """Whether this is the path of a file."""
    return isinstance(given, str | os.PathLike)


def are_two_paths(given: object) -> TypeGuard[tuple[StrPath, StrPath]]:
    """Whether this is the paths of a source and a target file; two strings are."""
    return isinstance(given, tuple | list) and len(given) == 2 and all(map(is_path, given))


def read_records(records: Iterable[Any], name: str, columns: Columns = ANY) -> Iterator[Pair]:
    """Parse records into pairs, lazily; `name` is for error messages. The first mapping fixes the fields of all."""
    refuse_others(records, name)
    fields, number = columns.fields, 0
    for number, record in enumerate(records, start=1):
        where = f"{name}, pair {number:,}"
        if fields is None and isinstance(record, Mapping):
            fields = columns.choose(named_texts(record), where)
        yield parse_record(record, fields, where)
    if number == 0:
        raise DataError(f"{name}: has no pairs.")


def refuse_others(records: Iterable[Any], name: str) -> None:
    """Raise unless given an iterable of pairs; a mapping may be all splits of a dataset instead of one."""
    if isinstance(records, Mapping):
        keys = ", ".join(map(repr, records))
        if len(records) == 2 and all(map(is_column, records.values())):
            parts = ", ".join(f"{name}[{key!r}]" for key in records)
            raise UsageError(f"{name}: must be pairs, but is a mapping of two columns; pass zip({parts}).")
        raise UsageError(f"{name}: must be pairs, but is a mapping with the keys {keys}; pass one of its values.")
    if hasattr(records, "itertuples"):
        raise UsageError(f"{name}: must be pairs, but is a data frame; pass zip(frame[source], frame[target]).")
    if not isinstance(records, Iterable) and not hasattr(records, "__getitem__"):
        raise UsageError(f"{name}: must be files or pairs, but is {records!r} instead.")


def is_column(given: object) -> bool:
    """Whether this is a list of texts."""
    return isinstance(given, list) and bool(given) and isinstance(given[0], str)


def named_texts(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """The part of a record that has its texts: the value of `translation`, or the record itself."""
    inner = record.get("translation")
    return inner if isinstance(inner, Mapping) else record


def parse_record(record: Any, fields: Fields | None, where: str) -> Pair:
    """Parse a pair of texts, a mapping with two fields, or one with both languages under `translation`."""
    if isinstance(record, Mapping):
        texts = named_texts(record)
        pair = tuple(texts[field] for field in Columns(fields).choose(texts, where))
    else:
        pair = tuple(record) if isinstance(record, tuple | list) else (record,)
    if len(pair) != 2 or not all(isinstance(text, str) for text in pair):
        kinds = ", ".join(type(part).__name__ for part in pair[:3]) + (", …" if len(pair) > 3 else "")
        hint = " For two parallel lists, pass zip(sources, targets)." if len(pair) > 3 else ""
        raise DataError(f"{where}: must be two texts, source and target, but is ({kinds}) instead.{hint}")
    return pair[0], pair[1]


def write_records(records: Iterable[Any], path: Path, name: str, columns: Columns) -> Fields | None:
    """Write records to a .jsonl.zst file, which can be read repeatedly; return the fields, if the first has names."""
    refuse_others(records, name)
    stream = iter(records)
    first = list(islice(stream, 1))
    with path.open("wb") as file, zstandard.ZstdCompressor(level=1).stream_writer(file) as packed:
        for source, target in read_records(chain(first, stream), name, columns):
            packed.write(json.dumps({"src": source, "tgt": target}).encode("ascii") + b"\n")
    return columns.choose(named_texts(first[0]), name) if isinstance(first[0], Mapping) else None


def languages_of(fields: Fields | None) -> Fields | None:
    """The languages of source and target, if the fields are named after them."""
    if fields is None or not all(isinstance(name, str) and LANGUAGE.fullmatch(name) for name in fields):
        return None
    return fields
