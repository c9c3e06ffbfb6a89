"""Suggestions for misspelled names."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint with the closest known name, to append to a message; empty if none is close."""
    folded = {each.casefold(): each for each in known}
    matches = get_close_matches(name.casefold(), list(folded), n=1)
    return f" Did you mean `{folded[matches[0]]}`?" if matches else ""
