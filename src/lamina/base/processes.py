"""Process pools that end with the process that started them."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from lamina.errors import KilledProcessError

Result = TypeVar("Result")
PR_SET_PDEATHSIG = 1  # constant of Linux's prctl


@contextmanager
def processes(workers: int, initializer: Callable[..., None], argument: Any) -> Iterator[Executor]:
    """Yield a pool whose processes start with `initializer(argument)`; a single worker is a thread of this process."""
    if workers <= 1:
        with ThreadPoolExecutor(1, initializer=initializer, initargs=(argument,)) as threads:
            yield threads
        return
    with start_processes(workers, initializer, argument) as pool:
        yield pool


def run_in_child(work: Callable[[], Result]) -> Result:
    """Run work that ignores signals, such as a library call, in a forked child that Ctrl-C ends at once."""
    if sys.platform != "linux":
        return work()
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_report, args=(sender, work, os.getpid()))
    child.start()
    sender.close()
    try:
        result, error = receiver.recv()
    except EOFError as gone:
        raise KilledProcessError("A child process was killed, possibly for lack of memory.") from gone
    finally:
        child.kill()
        child.join()
    if error is not None:
        raise error
    return cast("Result", result)


def _report(sender: Any, work: Callable[[], Any], parent: int) -> None:
    _begin(parent, lambda _: None, None)
    try:
        sender.send((work(), None))
    except BaseException as error:
        sender.send((None, error))


def start_processes(workers: int, initializer: Callable[..., None], argument: Any) -> ProcessPoolExecutor:
    """Start a pool that lives until it is shut down; on Linux its processes are forked."""
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    arguments = (os.getpid(), initializer, argument)
    return ProcessPoolExecutor(workers, mp_context=context, initializer=_begin, initargs=arguments)


def end_with_parent(how: str = "SIGTERM") -> None:
    """Have the kernel signal this process when its parent ends for any reason; Linux only."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.Signals[how])


def _begin(parent: int, initializer: Callable[..., None], argument: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to stop
    end_with_parent("SIGKILL")
    if os.getppid() != parent:  # the parent ended before prctl took effect
        os._exit(1)
    initializer(argument)
