"""Runs commands as cluster jobs through submitit: on Slurm, or as local processes.

A job is a command that can be stopped at any moment and resumes when it is run again. Completion is recorded in files
only, so the launcher may be stopped as well: when restarted, it waits for the jobs that are still running.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml

from lamina.base.files import write_file
from lamina.base.processes import end_with_parent
from lamina.base.reading import read_json
from lamina.errors import LaminaError, MissingExtraError, StoppedError, UsageError

Cluster = Literal["local", "slurm"]
POLL = 0.5  # seconds between checks of files and local processes
ASK = 60.0  # seconds between queries to Slurm about a job without a result
ATTEMPTS = 20  # maximum submissions of a job that is preempted or killed
STOPPED = 75  # exit code of a command that was told to stop and can resume
GRACE = 3.0  # seconds for the children of a killed job to save and exit
ALIVE = ("PENDING", "RUNNING", "REQUEUED", "REQUEUE", "COMPLETING", "CONFIGURING", "SUSPENDED", "RESIZING")


@dataclass(frozen=True)
class Job:
    """A command, its log, and the file that marks it as done."""

    name: str
    command: tuple[str, ...]
    log: Path
    done: Path
    content: str | None = None  # written to `done` when the command succeeds; None if it writes the file itself

    def is_done(self) -> bool:
        """Whether `done` exists, with this content if one is given."""
        return self.done.is_file() and self.content in (None, self.done.read_text(encoding="utf-8"))


class CommandRunner:
    """Executes a job's command; submitit calls `checkpoint` before a time limit or preemption."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.process: subprocess.Popen[bytes] | None = None

    def __call__(self) -> int:
        """Run the command and return its exit code."""
        end_with_parent("SIGKILL")  # the command itself gets SIGTERM when this process ends
        self.job.log.parent.mkdir(parents=True, exist_ok=True)
        with self.job.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.job.command, stdout=log, stderr=log, start_new_session=True, preexec_fn=end_with_parent
            )
        code = self._wait()
        if code == 0 and self.job.content is not None:
            write_file(self.job.done, self.job.content)
        return code

    def checkpoint(self) -> Any:
        """Stop the command, which saves its state, and requeue the job."""
        from submitit.helpers import DelayedSubmission

        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            self._wait()
        return DelayedSubmission(CommandRunner(self.job))

    def _wait(self) -> int:
        """Wait by polling: a signal handler may wait as well, and two blocking waits would deadlock."""
        assert self.process is not None
        while (code := self.process.poll()) is None:
            time.sleep(POLL / 5)
        return code


class JobError(LaminaError):
    """A failed job; carries the last line of its log and its exit code."""

    def __init__(self, log: Path, code: int) -> None:
        text = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
        last = text.strip().splitlines()[-1:] or ["the job printed nothing."]
        super().__init__(f"{log}: {last[0].removeprefix('lamina: ')}")
        self.exit_code = code if code > 0 else 1


def parse_options(texts: Sequence[str]) -> dict[str, Any]:
    """Parse `KEY=VALUE` texts into submitit parameters."""
    options = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UsageError(
                f"--cluster-option must be KEY=VALUE, such as slurm_partition=gpu, but is `{text}` instead."
            )
        try:
            options[key] = yaml.safe_load(value)
        except yaml.YAMLError as error:
            problem = getattr(error, "problem", None) or error
            raise UsageError(f"--cluster-option {key}: not YAML: {problem}.") from error
    return options


class _Launcher:
    """Submits jobs, and finds those that an earlier launcher left running."""

    def __init__(self, folder: Path, cluster: Cluster, options: dict[str, Any]) -> None:
        try:
            import submitit
        except ImportError as error:
            raise MissingExtraError("--cluster", "cluster") from error
        self.cluster, self.folder, self.ids = cluster, folder / "jobs", folder / "jobs.json"
        self.known: dict[str, str] = read_json(self.ids) if self.ids.is_file() else {}
        self.restore: Callable[..., Any] = submitit.SlurmJob if cluster == "slurm" else _OrphanedProcess
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            self.executor = submitit.AutoExecutor(folder=self.folder, cluster=cluster, slurm_max_num_timeout=ATTEMPTS)
            self.executor.update_parameters(**{"timeout_min": 60 * 24, **options})
        except (RuntimeError, NameError, TypeError, ValueError, AssertionError) as error:
            raise UsageError(f"--cluster {cluster}: {str(error).splitlines()[0]}") from error

    def start(self, job: Job) -> Any:
        """Submit a job."""
        self.executor.update_parameters(name=job.name)
        try:
            submitted = self.executor.submit(CommandRunner(job))
        except Exception as error:  # whatever sbatch says
            raise LaminaError(f"{job.name}: could not be submitted ({str(error).splitlines()[-1]}).") from error
        self.known[job.name] = submitted.job_id
        write_file(self.ids, json.dumps(self.known, indent=1) + "\n")
        return submitted

    def find(self, job: Job) -> Any | None:
        """The running job that an earlier launcher submitted, or None."""
        if job.name not in self.known:
            return None
        found = self.restore(self.folder, self.known[job.name])
        return found if found.state.split()[0] in ALIVE else None


class _OrphanedProcess:
    """A local job whose launcher has ended."""

    def __init__(self, folder: Path, job_id: str) -> None:
        self.folder, self.number = folder, int(job_id)

    @property
    def state(self) -> str:
        try:
            command = Path(f"/proc/{self.number}/cmdline").read_bytes().split(b"\0")
        except OSError:
            return "UNKNOWN"
        ours = os.fsencode(self.folder.resolve()) in command or b"submitit.local._local" in command
        return "RUNNING" if ours else "UNKNOWN"  # another program may have the id by now

    def done(self, force_check: bool = False) -> bool:
        return self.state != "RUNNING"

    def result(self) -> int:
        return STOPPED  # the exit code is unknown; `Job.is_done` decides

    def cancel(self) -> None:
        with suppress(ProcessLookupError):  # it may just have ended
            os.kill(self.number, signal.SIGTERM)


def run_jobs(
    jobs: Sequence[Job],
    folder: Path,
    cluster: Cluster,
    options: dict[str, Any],
    at_once: int,
    on_poll: Callable[[Job], None] = lambda job: None,
) -> None:
    """Run every job that is not done: on this machine `at_once` at a time, on a cluster all at once."""
    waiting = [job for job in jobs if not job.is_done()]
    if not waiting:
        return
    launcher = _Launcher(folder, cluster, options)
    attempts = dict.fromkeys(waiting, 0)
    running: dict[Job, Any] = {job: found for job in waiting if (found := launcher.find(job)) is not None}
    waiting = [job for job in waiting if job not in running]
    asked = time.monotonic()
    try:
        while waiting or running:
            while waiting and (cluster == "slurm" or len(running) < at_once):
                job = waiting.pop(0)
                attempts[job] += 1
                running[job] = launcher.start(job)
            time.sleep(POLL)
            ask = time.monotonic() - asked > ASK
            asked = time.monotonic() if ask else asked
            for job, handle in list(running.items()):
                on_poll(job)
                ended = handle.done(force_check=ask) or (cluster == "slurm" and job.is_done())
                if not ended:
                    continue
                del running[job]
                if not job.is_done():
                    _check_resumable(job, handle, attempts[job])
                    waiting.append(job)
    except KeyboardInterrupt:
        for made in running.values():
            made.cancel()
        raise StoppedError("Stopped and cancelled the jobs; rerun the same command to resume.", 130) from None
    except JobError:
        for handle in running.values():
            handle.cancel()
        raise


def _check_resumable(job: Job, handle: Any, attempts: int) -> None:
    """Raise unless the job was preempted or killed and has attempts left."""
    try:
        code = handle.result()
    except Exception:  # no result: the job was killed
        code = STOPPED
    if job.is_done():
        return
    if code not in (STOPPED, -signal.SIGKILL, -signal.SIGTERM) or attempts >= ATTEMPTS:
        raise JobError(job.log, code)
    time.sleep(GRACE)
