"""Suggestion of the next command after a command succeeds."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path


def say_next(*words: str | Path, quiet: bool = False) -> None:
    """Print the most useful next command to stderr, on the first rank only."""
    if not quiet and os.environ.get("RANK", "0") == "0":
        print(f"Next: {shlex.join(map(str, words))}", file=sys.stderr)
