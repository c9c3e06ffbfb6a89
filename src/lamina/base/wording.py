"""Words that messages are built from."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """A number with its noun, in the plural unless it is one: 1 line, 2,000 lines."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
