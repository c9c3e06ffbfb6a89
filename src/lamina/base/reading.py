"""Lines of text from plain, `.gz` and `.zst` files, and small JSON files."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import sys
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

import zstandard

from lamina.errors import DataError

BOM = b"\xef\xbb\xbf"
CHECKSUM = "checksum"  # key of a JSON file; covers all its other keys
CHUNK = 2**17  # compressed bytes read at a time


@contextmanager
def open_bytes(path: Path | None) -> Iterator[IO[bytes]]:
    """A file's bytes, decompressed by its suffix, or of stdin; errors name the file."""
    name = path or "stdin"
    try:
        if path is None:
            yield sys.stdin.buffer
        elif path.suffix == ".gz":
            with gzip.open(path, "rb") as unpacked:
                yield cast("IO[bytes]", unpacked)
        elif path.suffix == ".zst":
            with path.open("rb") as packed:
                yield io.BufferedReader(_ZstdReader(packed))
        else:
            with path.open("rb") as stream:
                yield stream
    except FileNotFoundError as error:
        raise DataError(f"{name}: not found.") from error
    except IsADirectoryError as error:
        raise DataError(f"{name}: is a folder, not a file.") from error
    except (gzip.BadGzipFile, zlib.error, EOFError, zstandard.ZstdError) as error:
        raise DataError(f"{name}: damaged, or not in the format that its suffix indicates ({error}).") from error
    except OSError as error:
        raise DataError(f"{name}: cannot be read ({error.strerror}).") from error


class _ZstdReader(io.RawIOBase):
    """Decompresses any number of frames; unlike zstandard's own reader, it detects a truncated last frame."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.stream, self.pending = stream, b""
        self.frame: Any = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self.pending:
            packed = self.stream.read(CHUNK)
            if not packed:
                if self.frame is not None:
                    raise EOFError("the file ends within a frame")
                return 0
            self.pending = self._decompress(packed)
        count = min(len(buffer), len(self.pending))
        buffer[:count], self.pending = self.pending[:count], self.pending[count:]
        return count

    def _decompress(self, packed: bytes) -> bytes:
        parts = []
        while packed:
            self.frame = self.frame or zstandard.ZstdDecompressor().decompressobj()
            parts.append(self.frame.decompress(packed))
            packed = self.frame.unused_data if self.frame.eof else b""
            if self.frame.eof:
                self.frame = None
        return b"".join(parts)


def read_lines(path: Path | None) -> Iterator[str]:
    """Lines of a file, or of stdin, without their end (\\n or \\r\\n) and without a byte order mark."""
    with open_bytes(path) as stream:
        yield from decode_lines(stream, str(path or "stdin"))


def decode_lines(stream: Iterable[bytes], name: str) -> Iterator[str]:
    """Decode lines like `read_lines`; `name` stands for the file in errors."""
    for number, line in enumerate(stream, start=1):
        content = line.removesuffix(b"\n").removesuffix(b"\r")
        if number == 1:
            content = content.removeprefix(BOM)
        try:
            yield content.decode("utf-8")
        except UnicodeDecodeError as error:
            raise DataError(
                f"{name}:{number}: not UTF-8 (byte 0x{content[error.start]:02x} at column {error.start + 1}). "
                "Convert the file, for example with iconv."
            ) from error


def read_json(path: Path) -> dict[str, Any]:
    """Read a small file with a JSON object."""
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise DataError(f"{path}: not found.") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: not JSON ({error}).") from error
    if not isinstance(content, dict):
        raise DataError(f"{path}: must be a JSON object, but has type `{type(content).__name__}` instead.")
    return content


def sealed(content: dict[str, Any]) -> dict[str, Any]:
    """The content of a JSON file together with its checksum."""
    return {**content, CHECKSUM: _checksum(content)}


def read_sealed_json(path: Path) -> dict[str, Any]:
    """Read what `sealed` returned and verify its checksum; a file without one is accepted."""
    content = read_json(path)
    expected = content.pop(CHECKSUM, None)
    if expected is not None and expected != _checksum(content):
        raise DataError(f"{path}: damaged (its `{CHECKSUM}` does not match; if you edited the file, remove that line).")
    return content


def _checksum(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


@contextmanager
def damage_named(path: Path) -> Iterator[None]:
    """Convert errors about the structure of a file's content into a `DataError` that names the file."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        reason = f"lacks `{error.args[0]}`" if isinstance(error, KeyError) else str(error)
        raise DataError(f"{path}: damaged ({reason}).") from error
