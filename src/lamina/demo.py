"""The whole story on the built-in corpus: prepare, train two systems, translate, score, report."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lamina.analysis.demo_page import demo_page
from lamina.analysis.records import read_records
from lamina.analysis.sections import Outputs
from lamina.corpus.demo import write_demo
from lamina.corpus.prepare import Plan, Progress, no_progress, prepare
from lamina.corpus.reading import TwoFiles
from lamina.errors import LaminaError, StoppedError
from lamina.files import write_text
from lamina.processes import end_with_parent
from lamina.scoring.compare import Row, compare_outputs
from lamina.scoring.protocol import Gold

SYSTEMS = {"plain": "demo-transformer", "fused": "demo-surface-fusion"}  # a run's name and its recipe's
VOCABULARY = 4000  # a ceiling; the words of the grammar need fewer
POLL = 0.5  # seconds

Show = Callable[[str, int, int, float], None]  # a run's name, its step, all steps, its loss


@dataclass(frozen=True)
class DemoSize:
    """How much of everything."""

    train: int = 50_000
    valid: int = 500
    test: int = 500
    steps: int = 900


def prepare_corpus(out: Path, size: DemoSize, progress: Progress = no_progress) -> None:
    """Text and data folders; what is there already stays."""
    text = out / "text"
    done = text / "written.txt"
    wanted = f"{size.train} {size.valid} {size.test}"
    if not done.is_file() or done.read_text() != wanted:
        write_demo(text, size.train, size.valid, size.test)
        done.write_text(wanted)
    splits = [TwoFiles(text / f"{split}.en", text / f"{split}.de") for split in ("train", "valid", "test")]
    plan = Plan(train=splits[0], valid=splits[1], test=splits[2], vocab_size=VOCABULARY)
    prepare(plan, out / "data", os.cpu_count() or 1, progress)


def train_side_by_side(out: Path, size: DemoSize, show: Show) -> None:
    """Both systems at once, a process with half of the cores for each; each goes on where it stopped before."""
    threads = max(1, (os.cpu_count() or 1) // len(SYSTEMS))
    commands = {name: _command(out, name, recipe, size, threads) for name, recipe in SYSTEMS.items()}
    try:
        with _started(commands, out) as running:
            while any(process.poll() is None for process in running.values()):
                time.sleep(POLL)
                for name, process in running.items():
                    if process.poll() not in (None, 0):
                        raise TrainingError(out / f"{name}.log", process.returncode)
                    _show_newest(out / "runs" / name, name, size.steps, show)
    except KeyboardInterrupt:
        raise StoppedError("Stopped and saved; the same command goes on.", 130) from None


class TrainingError(LaminaError):
    """One of the two ended early; says what it said last, with its exit code."""

    def __init__(self, log: Path, code: int) -> None:
        last = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
        super().__init__(f"{log}: {' '.join(last).removeprefix('lamina: ')}")
        self.exit_code = code if code > 0 else 1


def translate_and_score(out: Path) -> tuple[Outputs, list[Row]]:
    """Translate the test set with both models, compare them, and write `report.html`."""
    from lamina.translation import load

    pairs = list(TwoFiles(out / "text" / "test.en", out / "text" / "test.de").pairs())
    outputs = Outputs([source for source, _ in pairs], [target for _, target in pairs], {})
    for name in SYSTEMS:
        outputs.by_system[name] = [each.text for each in load(out / "runs" / name).translate(outputs.sources)]
        write_text(out / f"{name}.de", "".join(f"{line}\n" for line in outputs.by_system[name]))
    gold = Gold([outputs.references], outputs.sources, False, ["test.de"])
    rows = compare_outputs(list(SYSTEMS), list(outputs.by_system.values()), gold)
    records = {name: read_records(out / "runs" / name) for name in SYSTEMS}
    write_text(out / "report.html", demo_page(outputs, rows, records))
    return outputs, rows


def _command(out: Path, name: str, recipe: str, size: DemoSize, threads: int) -> Sequence[str]:
    overrides = [
        f"name={name}",
        f"train.max_steps={size.steps}",
        f"train.warmup={max(1, size.steps // 6)}",
        f"train.gradients_every={max(1, size.steps // 30)}",
    ]
    return [
        *(sys.executable, "-m", "lamina", "train", recipe, "--data", str(out / "data")),
        *("--out", str(out / "runs" / name), "--threads", str(threads), "--device", "cpu"),
        *(part for override in overrides for part in ("--set", override)),
    ]


@contextmanager
def _started(commands: dict[str, Sequence[str]], out: Path) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """Processes that are asked to save and stop when this one does not wait for them to the end."""
    running: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for name, command in commands.items():
            with (out / f"{name}.log").open("wb") as log:
                running[name] = subprocess.Popen(
                    command, stdout=log, stderr=log, start_new_session=True, preexec_fn=end_with_parent
                )
        yield running
    finally:
        for process in running.values():
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in running.values():
            process.wait()


def _show_newest(run: Path, name: str, steps: int, show: Show) -> None:
    if (run / "metrics.jsonl").is_file():
        losses = read_records(run).curve("train", "loss")
        if losses:
            step, loss = losses[-1]
            show(name, int(step), steps, loss)
