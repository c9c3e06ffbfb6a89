"""Files that are complete or not there, and digests that say whether they still are."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

PARTIAL = ".partial"  # ends the name of everything that is still being written


def digest(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def flush(path: Path) -> None:
    """Make sure that a file's content, or a folder's entries, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_text(path: Path, text: str) -> None:
    """Write a small file under a temporary name, flush it to the disk, then rename it."""
    partial = path.with_name(path.name + PARTIAL)
    partial.write_text(text, encoding="utf-8", newline="\n")
    flush(partial)
    partial.rename(path)
