"""Models on the Hugging Face hub: `hf:OWNER/NAME` wherever a run is meant."""

from __future__ import annotations

import os
import re
from pathlib import Path

from lamina.errors import DataError, MissingExtraError, UsageError

SCHEME = "hf:"
REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")


def fetch(place: str | os.PathLike[str]) -> Path:
    """A folder on this machine: the place itself, or a copy of the repository that `hf:OWNER/NAME` names."""
    name = os.fspath(place)
    if not name.startswith(SCHEME):
        return Path(place)
    repository = check_repository(name.removeprefix(SCHEME))
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise MissingExtraError(name, "hub") from error
    try:
        return Path(snapshot_download(repository))
    except Exception as error:  # its own kinds, its HTTP library's and the system's
        raise DataError(f"{name}: cannot be downloaded ({first_line(error)}).") from error


def check_repository(name: str) -> str:
    """A repository's name, if it can be one."""
    if not REPOSITORY.fullmatch(name):
        raise UsageError(f"A repository must be OWNER/NAME, but is `{name}` instead.")
    return name


def first_line(error: Exception) -> str:
    """What a library's error says first, as part of a sentence."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
