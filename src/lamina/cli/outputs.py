"""Output files of commands: written atomically, never over an input or, without --force, an existing file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from lamina.base.files import atomic_file
from lamina.errors import DataError, UsageError

Force = Annotated[bool, typer.Option("--force", help="Replace existing output files.")]


def check_output(path: Path | None, inputs: Iterable[Path | None], force: bool) -> None:
    """Raise if an output is also an input or already exists; call before any work is done."""
    if path is None or not (path.exists() or path.is_symlink()):
        return
    for each in inputs:
        if each is not None and each.exists() and path.exists() and path.samefile(each):
            raise UsageError(f"{path}: is also an input ({each}); choose another output file.")
    if path.is_dir():
        raise UsageError(f"{path}: is a folder; give the name of a file.")
    if path.is_file() and not force:
        raise UsageError(f"{path}: already exists; use --force to replace it.")


def check_page(page: Path, others: Iterable[Path], inputs: Iterable[Path], force: bool) -> None:
    """Raise if files would be replaced, unless the page was written by Lamina."""
    from lamina.analysis.page import is_ours

    inputs = list(inputs)
    for path in (page, *others):
        check_output(path, inputs, force or is_ours(page))


@contextmanager
def open_output(path: Path) -> Iterator[_Lines]:
    """Open an output file, written atomically on success; pipes and devices are written directly."""
    try:
        if path.exists() and not path.is_file():
            with path.open("wb") as stream:
                yield _Lines(stream)
            return
        with atomic_file(path.resolve()) as stream:  # replaces the target of a symbolic link
            yield _Lines(stream)
    except OSError as error:
        raise DataError(f"{path}: cannot be written ({error.strerror}).") from error


class _Lines:
    """A UTF-8 text stream, regardless of the locale."""

    def __init__(self, stream: object) -> None:
        self.stream = stream

    def write(self, text: str) -> None:
        self.stream.write(text.encode("utf-8", "surrogateescape"))  # type: ignore[attr-defined]
