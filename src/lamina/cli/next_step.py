"""The `Next:` line after a command that created something."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path


def say_next(*words: str | Path, quiet: bool = False) -> None:
    """Print the most useful next command on stderr, from the first process only."""
    if not quiet and os.environ.get("RANK", "0") == "0":
        print(f"Next: {shlex.join(map(str, words))}", file=sys.stderr)
