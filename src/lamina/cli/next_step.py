"""The line after a verb that made something."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path


def say_next(*words: str | Path, quiet: bool = False) -> None:
    """Say the most useful next command on stderr, once however many processes there are."""
    if not quiet and os.environ.get("RANK", "0") == "0":
        print(f"Next: {shlex.join(map(str, words))}", file=sys.stderr)
