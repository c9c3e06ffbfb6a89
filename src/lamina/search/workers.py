"""Independent batches, one on each CPU core.

Two batches on a core each are done sooner than one after the other on both, since a decoding step is many small
operations that gain little by a second thread.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import torch

from lamina.processes import processes

Item = TypeVar("Item")
Result = TypeVar("Result")

WORTH_SHARING = 5 * 10**7  # multiply-adds of the vocabulary product

_work: Callable[[Any], Any]  # of this worker process


def map_on_cores(work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    """`work` of every item, in order, by a process for each of torch's threads.

    The processes are copies of this one, with its model. Where copying is not safe (not on Linux, or not from the main
    thread) everything is done here.
    """
    workers = min(torch.get_num_threads(), len(items))
    safe = sys.platform == "linux" and threading.current_thread() is threading.main_thread()
    if workers < 2 or not safe:
        yield from map(work, items)
        return
    with processes(workers, _begin, work) as pool:
        yield from pool.map(_do, items)


@contextmanager
def threads_for(work: int) -> Iterator[None]:
    """One thread while a step has fewer multiply-adds than are worth handing out to others."""
    before = torch.get_num_threads()
    if before == 1 or work >= WORTH_SHARING:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _begin(work: Callable[[Any], Any]) -> None:
    global _work
    _work = work
    torch.set_num_threads(1)


def _do(item: Any) -> Any:
    return _work(item)
