"""The number of compute threads: torch's setting, readable and writable before torch is imported."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

_wanted: list[int] = []  # what to set once torch is imported


def set_threads(count: int) -> None:
    """Use this many threads from now on."""
    _wanted[:] = [count]
    thread_count()


def thread_count() -> int:
    """Threads that compute; by default one for each core that this process may use."""
    torch = sys.modules.get("torch")
    if torch is None:
        return _wanted[0] if _wanted else default_threads()
    while _wanted:
        torch.set_num_threads(_wanted.pop())
    return int(torch.get_num_threads())


def default_threads() -> int:
    """As torch counts: `OMP_NUM_THREADS`, else cores, of which several hardware threads are one."""
    given = os.environ.get("OMP_NUM_THREADS", "")
    if given.isdecimal() and int(given) > 0:
        return int(given)
    if sys.platform != "linux":
        return os.cpu_count() or 1
    usable, cores = os.sched_getaffinity(0), set()
    with suppress(OSError):
        for number in usable:
            topology = Path(f"/sys/devices/system/cpu/cpu{number}/topology/thread_siblings_list")
            cores.add(topology.read_text(encoding="ascii"))
        return len(cores)
    return len(usable)
