"""Suggestions of the form "Did you mean …?"."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint with the nearest known name to append to a message; empty if none is close."""
    folded = {each.casefold(): each for each in known}
    matches = get_close_matches(name.casefold(), list(folded), n=1)
    return f" Did you mean `{folded[matches[0]]}`?" if matches else ""
