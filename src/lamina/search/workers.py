"""Independent batches, one on each CPU core.

Two batches on a core each are done sooner than one after the other on both, since a decoding step is many small
operations that gain little by a second thread.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.util import Finalize
from typing import Any, Generic, TypeVar

import torch

from lamina.errors import LaminaError
from lamina.processes import start_processes

Item = TypeVar("Item")
Result = TypeVar("Result")

WORTH_SHARING = 5 * 10**7  # multiply-adds of the vocabulary product

_work: Callable[[Any], Any]  # of this worker process
_lock = threading.Lock()
_working_here = 0  # threads of this process that are at work: a copy made meanwhile would wait for them forever


class CoreWorkers(Generic[Item, Result]):
    """A process for each of torch's threads, made when there is work for it and kept for more.

    They are copies of this process, with the model as it was then. Where copying is not safe (not on Linux, not from
    the main thread, or while others work) everything is done here. `work` must not refer to these workers, so that
    they can end.
    """

    def __init__(self, work: Callable[..., Result]) -> None:
        self.work = work
        self._pool: Executor | None = None
        self._made_for = (0, 0)  # so many workers, by this process
        self._end: Callable[[], object] = lambda: None

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy makes its own processes."""
        return CoreWorkers, (self.work,)

    def do(self, *arguments: Any) -> Result:
        """The work itself, in this process."""
        global _working_here
        with _lock:
            _working_here += 1
        try:
            return self.work(*arguments)
        finally:
            with _lock:
                _working_here -= 1

    def map(self, items: Sequence[Item]) -> Iterator[Result]:
        """`work` of every item, in order."""
        try:
            done = self._submit(items)
            yield from map(self.do, items) if done is None else done
        except BrokenProcessPool:
            self.close()  # the next call makes a new one
            raise LaminaError(
                "A process that was translating has been killed, perhaps for lack of memory. Use fewer threads."
            ) from None

    def close(self) -> None:
        """End the processes, after what they are at."""
        self._end()
        self._pool = None

    def _submit(self, items: Sequence[Item]) -> Iterator[Result] | None:
        """What the processes will have done; None where the work is to be done here."""
        wanted = min(torch.get_num_threads(), len(items))
        main = threading.current_thread() is threading.main_thread()
        if wanted < 2 or not main or sys.platform != "linux" or multiprocessing.current_process().daemon:
            return None
        with _lock:
            if _working_here:
                return None
            try:
                return self._ready_pool(wanted).map(_do, items)
            except BrokenProcessPool:  # since it was last used
                self.close()
                return self._ready_pool(wanted).map(_do, items)

    def _ready_pool(self, wanted: int) -> Executor:
        made, process = self._made_for
        if self._pool is None or process != os.getpid() or not wanted <= made <= torch.get_num_threads():
            self.close()
            pool = start_processes(wanted, _begin, self.work)
            self._pool, self._made_for = pool, (wanted, os.getpid())
            self._end = Finalize(self, pool.shutdown, exitpriority=100)  # before multiprocessing waits for its children
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
