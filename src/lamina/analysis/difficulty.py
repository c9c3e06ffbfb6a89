"""BLEU by sentence difficulty (Wei et al. 2020, Eqs. 14–15, Figure 3)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, pstdev

from lamina.analysis.finding import Finding, Picture, label_runs
from lamina.base.files import write_file
from lamina.base.progress import Progress, no_progress, tracked
from lamina.base.wording import counted
from lamina.errors import DataError
from lamina.figures.axes import Axis
from lamina.figures.charts import Bars, bar_chart
from lamina.scoring.protocol import Gold, Interval, score
from lamina.scoring.sacre import Bleu
from lamina.scoring.significance import score_interval
from lamina.store.checkpoints import Checkpoints
from lamina.store.loading import load_run
from lamina.translation import Translator, load

PARTS = ("simple", "ordinary", "difficult", "challenging")
READING = (
    "A sentence's difficulty is the mean plus the standard deviation of its loss over a run's last checkpoints (Wei "
    "et al. 2020, Eqs. 14–15; the loss is summed over target tokens including eos, without smoothing). The test set "
    "is split into four equal parts from simple to challenging. The paper's claim (Figure 3): on simple sentences "
    "all models are nearly equal, and the harder the sentences, the more a deep MSC model gains."
)


def difficulties(losses: Sequence[Sequence[float]]) -> list[float]:
    """Mean + population standard deviation over checkpoints for each sentence; `losses` has a row per checkpoint."""
    return [fmean(each) + pstdev(each) for each in zip(*losses, strict=True)]


def cut(scores: Sequence[float], parts: int = len(PARTS)) -> list[list[int]]:
    """Split sentence numbers into equal parts, easiest first; the first parts get the remainder."""
    order = sorted(range(len(scores)), key=lambda number: (scores[number], number))
    size, remainder = divmod(len(order), parts)
    starts = [part * size + min(part, remainder) for part in range(parts + 1)]
    return [order[starts[part] : starts[part + 1]] for part in range(parts)]


def losses_of(
    run: Path, steps: Sequence[int], sources: Sequence[str], targets: Sequence[str], progress: Progress = no_progress
) -> list[list[float]]:
    """Compute −log p of each target under each checkpoint of a run."""
    rows = []
    for step in tracked(steps, "scoring checkpoints", progress):
        loaded = load_run(run, step)
        translator = Translator([loaded.model.eval()], loaded.text)
        ids = translator.encode(sources)[0], loaded.text.target.encode(targets)
        rows.append([-each.log_prob for each in translator.rescore(*ids, lenpen=1.0)])
    return rows


def analyze_difficulty(
    runs: Sequence[Path],
    checkpoints: int,
    sources: Sequence[str],
    references: Sequence[str],
    progress: Progress = no_progress,
) -> tuple[Finding, list[list[int]]]:
    """Partition the test set by difficulty for the first run, and score every run on each part."""
    steps = Checkpoints(runs[0] / "checkpoints").steps()[-checkpoints:]
    if len(steps) < checkpoints:
        raise DataError(
            f"{runs[0]}: has {counted(len(steps), 'checkpoint')}, but needs {checkpoints}; train it with "
            f"a smaller `train.save_every` and `train.keep_last={checkpoints}` or more, or use fewer checkpoints."
        )
    if len(sources) < len(PARTS):
        raise DataError(f"At least {len(PARTS)} test sentences are needed, but the test set has {len(sources)}.")
    scores = difficulties(losses_of(runs[0], steps, sources, references, progress))
    parts = cut(scores)
    names = label_runs(runs)
    rows = []
    intervals: dict[str, list[Interval]] = {name: [] for name in names}
    for name, run in tracked(list(zip(names, runs, strict=True)), "translating with runs", progress):
        translator = load(run)
        outputs = [each.text for each in translator.translate(sources)]
        for part, numbers in zip(PARTS, parts, strict=True):
            gold = Gold([[references[number] for number in numbers]], language=translator.text.target.language)
            chosen = [outputs[number] for number in numbers]
            hardness = fmean(scores[number] for number in numbers)
            rows.append((name, part, len(numbers), hardness, score(Bleu(gold), chosen).score))
            intervals[name].append(score_interval(Bleu(gold), chosen))
    series = [Bars(name, [row[4] for row in rows if row[0] == name], intervals[name]) for name in names]
    axis = Axis.over("BLEU", [row[4] for row in rows], zero=True)
    drawing = bar_chart(PARTS, series, axis, "part of the test set", verdict(series))
    data = {
        "checkpoints": steps,
        "difficulty": scores,
        "parts": [
            {"run": row[0], "part": row[1], "sentences": row[2], "difficulty": row[3], "bleu": row[4]} for row in rows
        ],
    }
    finding = Finding(
        "difficulty",
        "BLEU from simple to challenging sentences",
        READING,
        [
            Picture(
                "bleu",
                drawing,
                f"Parts by difficulty for {names[0]} over {counted(len(steps), 'checkpoint')}; "
                "error bars are 95% intervals.",
            )
        ],
        ("run", "part", "sentences", "mean difficulty", "BLEU"),
        rows,
        data,
    )
    return finding, parts


def verdict(series: Sequence[Bars]) -> str:
    """Title of the figure: the scores of one run, or the gains of the last over the first."""
    first, last = series[0], series[-1]
    if len(series) == 1:
        return f"{first.name}: {first.values[0]:.1f} BLEU on simple, {first.values[-1]:.1f} on challenging sentences"
    gains = [b - a for a, b in zip(first.values, last.values, strict=True)]
    return f"{last.name} vs. {first.name}: {gains[0]:+.1f} BLEU on simple, {gains[-1]:+.1f} on challenging sentences"


def write_parts(folder: Path, parts: Sequence[Sequence[int]], sources: Sequence[str], targets: Sequence[str]) -> None:
    """Write the test set in parts, easiest first."""
    (folder / "parts").mkdir(parents=True, exist_ok=True)
    texts = ["".join(f"{lines[number]}\n" for number in numbers) for numbers in parts for lines in (sources, targets)]
    for path, text in zip(part_paths(folder), texts, strict=True):
        write_file(path, text)


def part_paths(folder: Path) -> list[Path]:
    """Paths `parts/test.src.part0` to `parts/test.tgt.part3`."""
    return [folder / "parts" / f"test.{side}.part{part}" for part in range(len(PARTS)) for side in ("src", "tgt")]
