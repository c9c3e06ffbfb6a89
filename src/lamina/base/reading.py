"""Lines of text from plain, `.gz` and `.zst` files."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

import zstandard

from lamina.errors import DataError

BOM = b"\xef\xbb\xbf"


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """A file's bytes, decompressed by its suffix; a damaged one is named."""
    try:
        if path.suffix == ".gz":
            with gzip.open(path, "rb") as unpacked:
                yield cast("IO[bytes]", unpacked)
        elif path.suffix == ".zst":
            with path.open("rb") as packed, zstandard.ZstdDecompressor().stream_reader(packed) as reader:
                yield io.BufferedReader(reader)
        else:
            with path.open("rb") as stream:
                yield stream
    except FileNotFoundError as error:
        raise DataError(f"{path}: not found.") from error
    except IsADirectoryError as error:
        raise DataError(f"{path}: is a folder, not a file.") from error
    except (gzip.BadGzipFile, zlib.error, EOFError, zstandard.ZstdError) as error:
        raise DataError(f"{path}: damaged, or not compressed as its name says ({error}).") from error


def read_lines(path: Path) -> Iterator[str]:
    """Lines without their end (\\n or \\r\\n) and without a byte order mark."""
    with open_bytes(path) as stream:
        yield from decode_lines(stream, str(path))


def decode_lines(stream: Iterable[bytes], name: str) -> Iterator[str]:
    """The same from anything that gives lines of bytes."""
    for number, line in enumerate(stream, start=1):
        content = line.removesuffix(b"\n").removesuffix(b"\r")
        if number == 1:
            content = content.removeprefix(BOM)
        try:
            yield content.decode("utf-8")
        except UnicodeDecodeError as error:
            raise DataError(
                f"{name}:{number}: not UTF-8 (byte 0x{content[error.start]:02x} at column {error.start + 1}). "
                "Convert the file, for instance with iconv."
            ) from error
