"""Did you mean …?"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint with the nearest known name, ready to append to a message; empty if none is near."""
    matches = get_close_matches(name, list(known), n=1)
    return f" Did you mean `{matches[0]}`?" if matches else ""
