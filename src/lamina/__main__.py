"""`lamina` and `python -m lamina`: the command line as a process that starts and exits quickly."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from contextlib import suppress
from typing import NoReturn

from lamina.cli import BROKEN_PIPE, main


def run() -> NoReturn:
    """Run a command, then exit without tearing down torch and numba, which would take half a second."""
    gc.set_threshold(50_000, 20, 20)  # imports make many objects that all stay
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
