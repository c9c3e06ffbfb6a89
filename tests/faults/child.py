"""Run commands in forks of this process, which has already imported and compiled everything, and kill them."""

from __future__ import annotations

import ctypes
import io
import mmap
import os
import random
import resource
import select
import signal
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lamina.cli import main

CPU_SECONDS, WALL_SECONDS = 60, 900  # time limits of a command
POLL = 0.001  # seconds between checks of a command to kill
ADDRESSES = 12 * 2**30  # address space limit in bytes
PR_SET_CHILD_SUBREAPER = 36  # Linux prctl
CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "os.truncate", "os.link", "os.symlink"}


@dataclass(frozen=True)
class Outcome:
    """Outcome of a command."""

    code: int  # negative for a signal
    killed: bool  # by the campaign
    out: str
    said: str
    cpu: float  # seconds
    memory: int  # bytes
    operations: int  # file operations


@dataclass(frozen=True)
class Kill:
    """When to kill a command; `at` is a fraction of the whole run."""

    way: str  # "moment", "operation" or "write"
    at: float
    bytes: int = 0  # file size at which a write ends the process

    @classmethod
    def draw(cls, chance: random.Random) -> Kill:
        way = chance.choice(("moment", "operation", "write"))
        return cls(way, chance.random(), int(2 ** chance.uniform(0, 18)))


class Operations:
    """Counts file operations of this process and its children, and kills the process at the chosen operation."""

    def __init__(self) -> None:
        self.count = mmap.mmap(-1, 8)  # shared with children
        self.fatal: int | None = None

    def note(self, event: str = "", arguments: tuple[Any, ...] = ()) -> None:
        """Audit hook; also called by operations that are not audited."""
        opened = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        if not (opened or not event or event in CHANGES):
            return
        number = self.number() + 1
        self.count[:8] = number.to_bytes(8, "little")
        if number == self.fatal:
            os.kill(os.getpid(), signal.SIGKILL)

    def number(self) -> int:
        return int.from_bytes(self.count[:8], "little")

    def watch(self) -> None:
        """Start counting in this process."""
        from lamina.base import files

        sys.addaudithook(self.note)
        for place, name in ((os, "fsync"), (files, "exchange")):
            setattr(place, name, self.noted(getattr(place, name)))

    def noted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*arguments: Any) -> Any:
            self.note()
            result = function(*arguments)
            self.note()
            return result

        return wrapper


class ForkedProcess:
    """Replaces `subprocess.Popen` of a `lamina` command by a fork, without a new interpreter."""

    def __init__(
        self, command: list[str], *, stdout: Any, stderr: Any, start_new_session: bool, preexec_fn: Callable[[], None]
    ) -> None:
        self.returncode: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            os.dup2(stdout.fileno(), 1)
            os.dup2(stderr.fileno(), 2)
            os.setsid()
            preexec_fn()
            execute(command[command.index("lamina") + 1 :])

    def poll(self) -> int | None:
        return self.wait(os.WNOHANG)

    def wait(self, flags: int = 0) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, flags)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def send_signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)


def adopt_orphans() -> None:
    """Become the subreaper of orphaned processes, so that this process can wait for them."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)


def run_here(folder: Path, words: list[str], stdin: str = "") -> tuple[int, str]:
    """Run a command in this process, so that all forks share its imports and compiled code."""
    before, place, said = (sys.argv, sys.stdin), Path.cwd(), io.StringIO()
    os.chdir(folder)
    sys.argv = ["lamina", *words]
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin.encode()))
    try:
        with redirect_stdout(said), redirect_stderr(said):
            main()
    except SystemExit as end:
        return exit_code(end), said.getvalue()
    finally:
        os.chdir(place)
        sys.argv, sys.stdin = before
    return 0, said.getvalue()


def exit_code(end: SystemExit) -> int:
    return end.code if isinstance(end.code, int) else int(end.code is not None)


def execute(words: list[str]) -> None:
    """Run a command in a fork and exit."""
    sys.argv = ["lamina", *words]
    code = 70
    try:
        main()
    except SystemExit as end:
        code = exit_code(end)
    finally:
        with suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def run(
    folder: Path, words: list[str], stdin: str = "", kill: Kill | None = None, whole: Outcome | None = None
) -> Outcome:
    """Run a command in a fork; with `kill`, kill it at that fraction of its run."""
    operations = Operations()
    if kill is not None and whole is not None and kill.way == "operation":
        operations.fatal = 1 + int(kill.at * whole.operations)
    paths = [folder / name for name in ("stdin.log", "out.log", "said.log")]
    paths[0].write_text(stdin)
    started, child = time.monotonic(), os.fork()
    if child == 0:
        os.chdir(folder)
        for number, path in enumerate(paths):
            os.dup2(os.open(path.name, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # ignored by Python
        operations.watch()
        execute(words)
    limit = None if kill is None or whole is None or kill.way == "operation" else kill.at * whole.cpu * 1.05
    struck, handle = False, os.pidfd_open(child)
    while not select.select([handle], [], [], POLL if limit is not None and not struck else WALL_SECONDS)[0]:
        if limit is not None and not struck and cpu_seconds(child) >= limit:
            struck = True
            strike(child, kill)
        if time.monotonic() - started > WALL_SECONDS:
            os.kill(child, signal.SIGKILL)
    os.close(handle)
    _, status, usage = os.wait4(child, 0)
    wait_for_orphans()
    code = os.waitstatus_to_exitcode(status)
    reached = operations.fatal is not None and operations.number() >= operations.fatal
    killed = reached or (struck and code != 0)
    out, said = (path.read_text(errors="replace") for path in paths[1:])
    cpu, memory = usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024
    return Outcome(code, killed, out, said, cpu, memory, operations.number())


def strike(child: int, kill: Kill) -> None:
    """Kill the command or one of its processes, or limit the size of the files they write."""
    family = [child, *descendants(child)]
    if kill.way == "moment":
        os.kill(family[kill.bytes % len(family)], signal.SIGKILL)
        return
    for pid in family:
        with suppress(ProcessLookupError):
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (kill.bytes, kill.bytes))


def descendants(pid: int) -> list[int]:
    try:
        children = [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
    return children + [each for child in children for each in descendants(child)]


def cpu_seconds(pid: int) -> float:
    """CPU seconds of a process and its living children."""
    total = 0.0
    for each in (pid, *descendants(pid)):
        with suppress(OSError, ValueError, IndexError):
            total += int(Path(f"/proc/{each}/schedstat").read_text().split()[0]) / 1e9
    return total


def wait_for_orphans() -> None:
    """Wait until all processes left by a killed command have ended; raise if one does not."""
    limit = time.monotonic() + WALL_SECONDS
    while time.monotonic() < limit:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            time.sleep(0.002)
    raise TimeoutError("A killed command has left a process that does not end.")
