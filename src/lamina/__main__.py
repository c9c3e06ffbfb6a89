"""Entry point of `lamina` and `python -m lamina`, tuned for fast startup and exit."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from contextlib import suppress
from typing import NoReturn

from lamina.cli import BROKEN_PIPE, main


def run() -> NoReturn:
    """Run a command, then exit without tearing down torch and numba, which takes half a second."""
    gc.set_threshold(50_000, 20, 20)  # imports allocate many long-lived objects
    code: object = 0
    try:
        main()
    except SystemExit as end:
        code = end.code
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        code = BROKEN_PIPE
    with suppress(BrokenPipeError):
        sys.stderr.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


if __name__ == "__main__":
    run()
