"""Independent batches, one on each CPU core.

Two batches on a core each are done sooner than one after the other on both, since a decoding step is many small
operations that gain little by a second thread.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

import torch

from lamina.errors import LaminaError
from lamina.processes import start_processes

Item = TypeVar("Item")
Result = TypeVar("Result")

WORTH_SHARING = 5 * 10**7  # multiply-adds of the vocabulary product

_work: Callable[[Any], Any]  # of this worker process


class CoreWorkers(Generic[Item, Result]):
    """A process for each of torch's threads, made when there is work for two and kept for more of it.

    They are copies of this process, with the model as it was then. Where copying is not safe (not on Linux, or not
    from the main thread) everything is done here. `work` must not refer to these workers, so that they can end.
    """

    def __init__(self, work: Callable[[Item], Result]) -> None:
        self.work = work
        self._pool: Executor | None = None
        self._made_for = (0, 0)  # so many threads, by this process
        self._end: Callable[[], object] = lambda: None

    def map(self, items: Sequence[Item]) -> Iterator[Result]:
        """`work` of every item, in order."""
        safe = sys.platform == "linux" and threading.current_thread() is threading.main_thread()
        if min(torch.get_num_threads(), len(items)) < 2 or not safe:
            yield from map(self.work, items)
            return
        try:
            yield from self._ready_pool().map(_do, items)
        except BrokenProcessPool:
            self.close()  # the next call makes a new one
            raise LaminaError(
                "A process that was translating has been killed, perhaps for lack of memory. Use fewer threads."
            ) from None

    def close(self) -> None:
        """End the processes, after what they are at."""
        self._end()
        self._pool = None

    def _ready_pool(self) -> Executor:
        wanted = (torch.get_num_threads(), os.getpid())
        if self._pool is None or self._made_for != wanted:
            self.close()
            self._pool, self._made_for = start_processes(wanted[0], _begin, self.work), wanted
            self._end = weakref.finalize(self, self._pool.shutdown, wait=False)
        return self._pool


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
