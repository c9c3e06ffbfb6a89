"""Models on the Hugging Face Hub: `hf:OWNER/NAME` wherever a run is expected."""

from __future__ import annotations

import os
import re
from pathlib import Path

from lamina.errors import DataError, MissingExtraError, UsageError

SCHEME = "hf:"
REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")


def is_remote(place: str | os.PathLike[str]) -> bool:
    """Whether this is a repository on the Hub, `hf:OWNER/NAME`."""
    return os.fspath(place).startswith(SCHEME)


def fetch(place: str | os.PathLike[str]) -> Path:
    """A local folder: the given one, or a downloaded copy of the repository `hf:OWNER/NAME`."""
    if not is_remote(place):
        return Path(place)
    name = os.fspath(place)
    repository = check_repository(name.removeprefix(SCHEME))
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise MissingExtraError(name, "hub") from error
    try:
        return Path(snapshot_download(repository))
    except Exception as error:  # errors of the library, of HTTP or of the system
        raise DataError(f"{name}: cannot be downloaded ({first_line(error)}).") from error


def check_repository(name: str) -> str:
    """Check the name of a repository."""
    if not REPOSITORY.fullmatch(name):
        raise UsageError(f"A repository must be OWNER/NAME, but is `{name}` instead.")
    return name


def first_line(error: Exception) -> str:
    """The first line of a library's error message."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
