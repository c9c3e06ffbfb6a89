"""Pairs from Python: any iterable of pairs, or of records such as those of a Hugging Face `datasets` split."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeGuard

import zstandard

from lamina.base.files import StrPath
from lamina.corpus.reading import Pair
from lamina.errors import DataError, UsageError

KNOWN_FIELDS = (("src", "tgt"), ("source", "target"))
Fields = tuple[str, str]


def is_path(given: object) -> TypeGuard[StrPath]:
    """Whether this is the path of a file."""
    return isinstance(given, str | os.PathLike)


def are_two_paths(given: object) -> TypeGuard[tuple[StrPath, StrPath]]:
    """Whether this is the paths of a source and a target file; two strings are."""
    return isinstance(given, tuple | list) and len(given) == 2 and all(map(is_path, given))


def read_records(
    records: Iterable[Any], name: str, fields: Fields | None = None, langs: Fields | None = None
) -> Iterator[Pair]:
    """Parse records into pairs, lazily; `name` is for error messages. The first mapping fixes the fields of all."""
    refuse_others(records, name)
    number = 0
    for number, record in enumerate(records, start=1):
        where = f"{name}, pair {number:,}"
        if fields is None and isinstance(record, Mapping):
            fields = fields_of(record, langs, where)
        yield parse_record(record, fields, where)
    if number == 0:
        raise DataError(f"{name}: has no pairs.")


def refuse_others(records: Iterable[Any], name: str) -> None:
    """Raise unless given an iterable of pairs; a mapping may be all splits of a dataset instead of one."""
    if isinstance(records, Mapping):
        keys = ", ".join(map(repr, records))
        raise UsageError(f"{name}: must be pairs, but is a mapping with the keys {keys}; pass one of its values.")
    if hasattr(records, "itertuples"):
        raise UsageError(f"{name}: must be pairs, but is a data frame; pass zip(frame[source], frame[target]).")
    if not isinstance(records, Iterable) and not hasattr(records, "__getitem__"):
        raise UsageError(f"{name}: must be files or pairs, but is {records!r} instead.")


def fields_of(record: Mapping[str, Any], langs: Fields | None, where: str) -> Fields:
    """The fields of source and target in a mapping; `langs` selects among languages under `translation`."""
    inner = record.get("translation")
    return choose_fields(inner, langs, where) if isinstance(inner, Mapping) else choose_fields(record, None, where)


def parse_record(record: Any, fields: Fields | None, where: str) -> Pair:
    """Parse a pair of texts, a mapping with two fields, or one with both languages under `translation`."""
    if isinstance(record, Mapping):
        inner = record.get("translation")
        named: Mapping[str, Any] = inner if isinstance(inner, Mapping) else record
        pair = tuple(named[field] for field in choose_fields(named, fields, where))
    else:
        pair = tuple(record) if isinstance(record, tuple | list) else (record,)
    if len(pair) != 2 or not all(isinstance(text, str) for text in pair):
        kinds = ", ".join(type(part).__name__ for part in pair[:3]) + (", …" if len(pair) > 3 else "")
        hint = " For two parallel lists, pass zip(sources, targets)." if len(pair) > 3 else ""
        raise DataError(f"{where}: must be two texts, source and target, but is ({kinds}) instead.{hint}")
    return pair[0], pair[1]


def choose_fields(record: Mapping[str, Any], fields: Fields | None, where: str) -> Fields:
    """The fields of source and target: the given ones, a common pair of names, or the only two."""
    names = list(record)
    for known in (fields,) if fields is not None else KNOWN_FIELDS:
        if set(known) <= set(names):
            return known
    if fields is None and len(names) == 2:
        return names[0], names[1]
    found = ", ".join(f"`{name}`" for name in names)
    wanted = "Name the two columns with fields=(source, target)."
    if fields is not None:
        wanted = f"`{fields[0]}` and `{fields[1]}` are required."
    raise DataError(f"{where}: has the columns {found}. {wanted}")


def languages_of(record: Any, fields: Fields | None) -> Fields | None:
    """The languages that a record names under `translation`, source first."""
    inner = record.get("translation") if isinstance(record, Mapping) else None
    return choose_fields(inner, fields, "translation") if isinstance(inner, Mapping) else None


def write_records(
    records: Iterable[Any], path: Path, name: str, fields: Fields | None, langs: Fields | None = None
) -> Fields | None:
    """Write records to a .jsonl.zst file, which can be read repeatedly; return the languages that they name."""
    refuse_others(records, name)
    stream = iter(records)
    first = list(islice(stream, 1))
    with path.open("wb") as file, zstandard.ZstdCompressor(level=1).stream_writer(file) as packed:
        for source, target in read_records(chain(first, stream), name, fields, langs):
            packed.write(json.dumps({"src": source, "tgt": target}).encode("ascii") + b"\n")
    return languages_of(first[0], fields or langs)
