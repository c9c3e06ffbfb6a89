"""Numbers of cores and compute threads; torch's setting is readable and writable before torch is imported."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

SPINS = 1000  # iterations for which a waiting thread of torch's OpenMP spins before it sleeps; by default 300,000
_pending: list[int] = []  # what to set once torch is imported


def limit_spinning() -> None:
    """Let waiting threads sleep soon, unless the user has decided; effective only before torch is imported.

    If other programs keep the cores busy, a spinning thread takes the core from the thread that it waits for.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", str(SPINS))


def set_threads(count: int) -> None:
    """Use this many threads from now on."""
    _pending[:] = [count]
    thread_count()


def thread_count() -> int:
    """The number of compute threads; by default one for each core that this process may use."""
    torch = sys.modules.get("torch")
    if torch is None:
        return _pending[0] if _pending else default_threads()
    while _pending:
        torch.set_num_threads(_pending.pop())
    return int(torch.get_num_threads())


def default_threads() -> int:
    """torch's default: `OMP_NUM_THREADS`, else the number of physical cores that this process may use."""
    given = os.environ.get("OMP_NUM_THREADS", "")
    if given.isdecimal() and int(given) > 0:
        return int(given)
    if sys.platform == "linux":
        cores = set()
        with suppress(OSError):
            for number in os.sched_getaffinity(0):
                topology = Path(f"/sys/devices/system/cpu/cpu{number}/topology/thread_siblings_list")
                cores.add(topology.read_text(encoding="ascii"))
            return len(cores)
    return usable_cores()


def usable_cores() -> int:
    """Number of logical cores that this process may use: `taskset` and Slurm may allow only some of the machine's."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
