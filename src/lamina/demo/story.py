"""The demo's pipeline on the built-in corpus: prepare, train two systems, translate, score, report."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lamina.analysis.sections import Outputs
from lamina.base.files import write_file
from lamina.base.progress import Progress, no_progress
from lamina.base.threads import default_threads, usable_cores
from lamina.corpus.plan import Plan, TextOptions
from lamina.corpus.prepare import prepare
from lamina.corpus.reading import TwoFiles
from lamina.demo.grammar import write_demo
from lamina.demo.page import demo_page
from lamina.errors import UsageError
from lamina.scoring.compare import Row, compare_outputs
from lamina.scoring.protocol import Gold
from lamina.store.history import read_records
from lamina.study.launch import Show, Training, train_all
from lamina.version import __version__

SYSTEMS = {"plain": "demo-transformer", "fused": "demo-msc-surface"}  # run name to recipe name
MARK = "demo.txt"  # marks a folder created by the demo
VOCABULARY = 4000  # upper limit; the grammar needs fewer


@dataclass(frozen=True)
class DemoSize:
    """Sizes of the corpus and number of training steps."""

    train: int = 50_000
    valid: int = 500
    test: int = 500
    steps: int = 400


def prepare_corpus(out: Path, size: DemoSize, progress: Progress = no_progress) -> None:
    """Write the text and prepare the data, unless already done."""
    claim_folder(out)
    text = out / "text"
    done = text / "written.txt"
    sizes = f"{size.train} {size.valid} {size.test}"
    if not done.is_file() or done.read_text() != sizes:
        write_demo(text, size.train, size.valid, size.test)
        write_file(done, sizes)
    splits = [TwoFiles(text / f"{split}.en", text / f"{split}.de") for split in ("train", "valid", "test")]
    plan = Plan(train=splits[0], valid=splits[1], test=splits[2], text=TextOptions(vocab_size=VOCABULARY))
    prepare(plan, out / "data", usable_cores(), progress)


def claim_folder(out: Path) -> None:
    """Mark a new or empty folder as the demo's; raise if it contains other files."""
    out.mkdir(parents=True, exist_ok=True)
    if not (out / MARK).exists():
        if any(out.iterdir()):
            raise UsageError(f"{out}: is not empty and was not made by `lamina demo`. Choose another --out.")
        write_file(out / MARK, f"Made by `lamina demo` of Lamina {__version__}.\n")


def train_side_by_side(out: Path, size: DemoSize, show: Show) -> None:
    """Train both systems in parallel, each with half of the cores; both resume if interrupted."""
    threads = max(1, default_threads() // len(SYSTEMS))
    overrides = (f"train.warmup={max(1, size.steps // 6)}", f"train.gradients_every={max(1, size.steps // 30)}")
    trainings = [
        Training(name, recipe, out / "data", out / "runs" / name, size.steps, overrides, threads)
        for name, recipe in SYSTEMS.items()
    ]
    train_all(trainings, len(trainings), show)


def translate_and_score(out: Path) -> tuple[Outputs, list[Row]]:
    """Translate the test set with both models, compare them, and write `report.html`."""
    from lamina.translation import load

    pairs = list(TwoFiles(out / "text" / "test.en", out / "text" / "test.de").pairs())
    outputs = Outputs([source for source, _ in pairs], [target for _, target in pairs], {})
    for name in SYSTEMS:
        outputs.by_system[name] = [each.text for each in load(out / "runs" / name).translate(outputs.sources)]
        write_file(out / f"{name}.de", "".join(f"{line}\n" for line in outputs.by_system[name]))
    gold = Gold([outputs.references], outputs.sources, False, ["test.de"])
    rows = compare_outputs(list(SYSTEMS), list(outputs.by_system.values()), gold)
    records = {name: read_records(out / "runs" / name) for name in SYSTEMS}
    write_file(out / "report.html", demo_page(outputs, rows, records))
    return outputs, rows
