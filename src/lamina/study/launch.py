"""Launch training runs as subprocesses or cluster jobs."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lamina.base.cluster import Cluster, Job, run_jobs
from lamina.base.processes import end_with_parent
from lamina.errors import LaminaError, StoppedError
from lamina.store.history import read_records

POLL = 0.5  # seconds
Show = Callable[[str, int, int, float | None], None]  # name of the run, step, total steps, validation perplexity
Running = dict["Training", subprocess.Popen[bytes]]


@dataclass(frozen=True)
class Training:
    """One `lamina train` process, which resumes from its last checkpoint."""

    name: str
    recipe: str  # a file or a shipped recipe
    data: Path
    run: Path
    steps: int
    overrides: tuple[str, ...]
    threads: int | None  # None: one per core that the process may use
    device: str = "auto"

    @property
    def log(self) -> Path:
        """File for the process's output."""
        return self.run.with_name(f"{self.run.name}.log")

    def command(self) -> list[str]:
        """Command line of the process."""
        overrides = (f"name={self.name}", f"train.max_steps={self.steps}", *self.overrides)
        return [
            *(sys.executable, "-m", "lamina", "train", self.recipe, "--data", str(self.data), "--out", str(self.run)),
            *(() if self.threads is None else ("--threads", str(self.threads))),
            *(() if self.device == "auto" else ("--device", self.device)),
            *(part for override in overrides for part in ("--set", override)),
        ]


class TrainingError(LaminaError):
    """A training process failed; has its last line of output and its exit code."""

    def __init__(self, log: Path, code: int) -> None:
        last = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
        killed = f"killed by {signal.Signals(-code).name}. " if code < 0 else ""
        super().__init__(f"{log}: {killed}{' '.join(last).removeprefix('lamina: ')}")
        self.exit_code = code if code > 0 else 1


def train_all(trainings: Sequence[Training], at_once: int, show: Show) -> None:
    """Run all trainings, `at_once` in parallel; if one fails or this process is stopped, the others save and stop."""
    pending = list(trainings)
    try:
        with _terminate_on_exit() as running:
            while pending or running:
                while pending and len(running) < at_once:
                    _start(pending.pop(0), running)
                time.sleep(POLL)
                for training, process in list(running.items()):
                    _show_progress(training, show)
                    if process.poll() is None:
                        continue
                    del running[training]
                    if process.returncode:
                        raise TrainingError(training.log, process.returncode)
    except KeyboardInterrupt:
        raise StoppedError("Stopped and saved; rerun the same command to resume.", 130) from None


def train_on_cluster(
    trainings: Sequence[tuple[Training, Path, str]],
    out: Path,
    cluster: Cluster,
    options: dict[str, Any],
    at_once: int,
    show: Show,
) -> None:
    """Submit one job per training; a successful job writes the given text to its done mark."""
    jobs = {
        Job(training.name, tuple(training.command()), training.log, mark, content): training
        for training, mark, content in trainings
    }
    run_jobs(list(jobs), out, cluster, options, at_once, lambda job: _show_progress(jobs[job], show))


def _start(training: Training, running: Running) -> None:
    training.log.parent.mkdir(parents=True, exist_ok=True)
    with training.log.open("wb") as log:
        running[training] = subprocess.Popen(
            training.command(), stdout=log, stderr=log, start_new_session=True, preexec_fn=end_with_parent
        )


@contextmanager
def _terminate_on_exit() -> Iterator[Running]:
    running: Running = {}
    try:
        yield running
    finally:
        for process in running.values():
            process.send_signal(signal.SIGTERM)
        for process in running.values():
            process.wait()


def _show_progress(training: Training, show: Show) -> None:
    if (training.run / "metrics.jsonl").is_file():
        records = read_records(training.run)
        if losses := records.curve("train", "loss"):
            valid = records.curve("valid", "normalised_perplexity") or records.curve("valid", "perplexity")
            show(training.name, int(losses[-1][0]), training.steps, valid[-1][1] if valid else None)
