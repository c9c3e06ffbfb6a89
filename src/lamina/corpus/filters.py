"""Filters of training pairs: mild rules, each of which can be turned off."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

from lamina.errors import UsageError
from lamina.names import nearest

Reason = Literal["empty", "long", "ratio", "duplicate"]
REASONS: tuple[Reason, ...] = get_args(Reason)


@dataclass(frozen=True)
class Filters:
    """The rules for dropping a training pair; validation and test pairs are never dropped."""

    active: tuple[Reason, ...] = REASONS
    max_characters: int = 2000  # per side
    max_ratio: float = 9.0  # of the two lengths in characters, each plus 10 to tolerate short lines

    @classmethod
    def without(cls, names: Iterable[str], max_characters: int, max_ratio: float) -> Filters:
        """All filters except the named ones, which may be separated by commas; `all` disables every filter."""
        off = {name for given in names for name in re.split(r"[,\s]+", given) if name}
        for name in off - {*REASONS, "all"}:
            raise UsageError(f"Unknown filter `{name}`.{nearest(name, REASONS)} Filters: {', '.join(REASONS)}.")
        active = tuple(reason for reason in REASONS if not off & {reason, "all"})
        return cls(active, max_characters, max_ratio)

    def reason(self, source: str, target: str) -> Reason | None:
        """The reason to drop a pair, or None; duplicates are not detected here."""
        longer, shorter = max(len(source), len(target)), min(len(source), len(target))
        if shorter == 0 and "empty" in self.active:
            return "empty"
        if longer > self.max_characters and "long" in self.active:
            return "long"
        if longer + 10 > self.max_ratio * (shorter + 10) and "ratio" in self.active:
            return "ratio"
        return None

    def describe(self, reason: Reason) -> str:
        """The rule behind a reason, for the report."""
        return {
            "empty": "one side is empty",
            "long": f"a side is longer than {self.max_characters:,} characters",
            "ratio": f"one side is more than {self.max_ratio:g} times as long as the other",
            "duplicate": "duplicate of an earlier pair",
        }[reason]
