"""Training, validation and test data as users give them: files, or pairs from Python."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lamina.base.files import StrPath
from lamina.corpus.m2 import M2File
from lamina.corpus.plan import PairSource
from lamina.corpus.prepared import META
from lamina.corpus.reading import OneFile, TwoFiles, read_test
from lamina.corpus.records import (
    Columns,
    Fields,
    are_two_paths,
    distinct,
    is_path,
    languages_of,
    read_records,
    write_records,
)
from lamina.errors import DataError, UsageError
from lamina.text.sentences import LINE_BREAK

Pairs = PairSource | tuple[StrPath, StrPath] | StrPath | Iterable[Any]  # the data of one split


@dataclass
class SourceFinder:
    """Finds the pairs of each split; those from Python are written to files in a scratch folder."""

    scratch: Path
    fields: Fields | None = None  # the two fields of .jsonl files and records
    langs: Fields | None = None  # the languages of source and target
    line_break: str = " "  # replaces line breaks within a field
    annotator: str | None = None  # of .m2 files
    named: Fields | None = None  # the fields of the training records, or the suffixes of the training files

    def find(self, split: str, given: Pairs) -> PairSource:
        """Find the pairs of a split: two files, one file (.tsv, .jsonl, .m2), or pairs."""
        if isinstance(given, TwoFiles | OneFile | M2File):
            return given
        if are_two_paths(given):
            source, target = map(Path, given)
            if split == "train":
                self.named = TwoFiles(source, target).languages
            return TwoFiles(source, target)
        if is_path(given):
            path = Path(given)
            return M2File(path, self.annotator) if path.suffix == ".m2" else self._one_file(path, self.fields)
        path = self.scratch / f"{split}.jsonl.zst"
        columns = Columns(self.fields, (*distinct(self.langs), *distinct(self.named)))
        fields = write_records(given, path, split, columns)  # type: ignore[arg-type]
        if split == "train":
            self.named = fields
        return self._one_file(path)

    def _one_file(self, path: Path, fields: Fields | None = None) -> OneFile:
        return OneFile(path, fields, self.line_break)


def read_pairs(given: Pairs, name: str, langs: Fields | None = None) -> tuple[list[str], list[str]]:
    """Read both sides of a small set of pairs, which must not be empty; `langs` may name the columns of records."""
    if are_two_paths(given):
        files = TwoFiles(*map(Path, given))
        files.check_direction(langs, name)
        return read_test(files.source, files.target)
    if is_path(given):
        if (Path(given) / META).is_file():
            raise UsageError(
                f"{Path(given)}: is prepared data, which has no text; give the files or pairs of the test set."
            )
        given = OneFile(Path(given), langs=langs)
    if isinstance(given, TwoFiles | OneFile | M2File):
        pairs = list(given.pairs())
        if not pairs:
            raise DataError(f"{given.paths[0]}: has no pairs.")
    else:
        pairs = list(read_records(given, name, Columns(None, distinct(langs), in_order=langs is None)))  # type: ignore[arg-type]
    return [source for source, _ in pairs], [target for _, target in pairs]


@contextmanager
def find_sources(
    train: Pairs,
    valid: Pairs,
    test: Pairs | None,
    out: Path,
    fields: Fields | None,
    langs: Fields | None,
    keep_line_breaks: bool,
    annotator: int | None,
) -> Iterator[tuple[tuple[PairSource, PairSource, PairSource | None], Fields | None]]:
    """Yield the sources of all splits, and the languages if the training records name them.

    Pairs from Python are written to a temporary folder on the disk of `out`.
    """
    line_break = f" {LINE_BREAK} " if keep_line_breaks else " "
    with scratch_beside(out, any(map(is_from_python, (train, valid, test)))) as scratch:
        finder = SourceFinder(scratch, fields, langs, line_break, None if annotator is None else str(annotator))
        required = finder.find("train", train), finder.find("valid", valid)
        yield (*required, None if test is None else finder.find("test", test)), languages_of(finder.named)


@contextmanager
def scratch_beside(out: Path, needed: bool) -> Iterator[Path]:
    """Yield a temporary folder on the disk of `out`; `out` itself if none is needed."""
    if not needed:
        yield out
        return
    out = out.resolve()
    out.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=f".{out.name}-", dir=out.parent) as folder:
        yield Path(folder)


def is_from_python(given: Pairs | None) -> bool:
    """Whether these are pairs rather than files."""
    files = isinstance(given, TwoFiles | OneFile | M2File) or are_two_paths(given) or is_path(given)
    return given is not None and not files
