"""Results of a study's runs: outputs, scores, significance and costs."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

from safetensors import safe_open

from lamina.analysis.finding import Cell
from lamina.base.files import digest, write_file
from lamina.base.reading import read_sealed_json, sealed
from lamina.errors import DataError
from lamina.scoring.metrics import build_metrics
from lamina.scoring.protocol import Gold, score
from lamina.scoring.significance import compare_seeds
from lamina.store.checkpoints import Checkpoints
from lamina.store.history import read_records
from lamina.store.model_files import WEIGHTS
from lamina.training.averaging import average, choose_steps
from lamina.translation import load

COSTS = ("system", "parameters", "training tokens/s", "decoded sentences/s")
COSTS_NOTE = "Medians over seeds. Speeds depend on what else the machine was doing."


@dataclass(frozen=True)
class TestSet:
    """Sources and gold of a test set."""

    sources: list[str]
    gold: Gold

    def in_language(self, language: str | None) -> TestSet:
        """Set the target language, which selects BLEU's tokenizer."""
        return replace(self, gold=replace(self.gold, language=language))


@dataclass(frozen=True)
class RunResult:
    """Outputs, scores and costs of one run."""

    system: str
    seed: int
    run: Path
    outputs: dict[str, list[str]]  # by test set
    scores: dict[tuple[str, str], float]  # by test set and metric
    parameters: int
    decoding_speed: float  # sentences per second


@dataclass(frozen=True)
class SystemRow:
    """Scores of one system on one test set by one metric: per seed, and the difference from the baseline."""

    test: str
    metric: str
    system: str
    scores: Sequence[float]
    difference: float
    p: float | None

    def cells(self) -> tuple[Cell, ...]:
        """Table cells: system, seeds, mean, standard deviation, difference and p."""
        spread = round(stdev(self.scores), 2) if len(self.scores) > 1 else ""
        p = "" if self.p is None else round(self.p, 4)
        return self.system, len(self.scores), round(fmean(self.scores), 2), spread, round(self.difference, 2), p


def evaluate(
    run: Path, system: str, seed: int, tests: Mapping[str, TestSet], metrics: Sequence[str], last: int | None
) -> RunResult:
    """Translate the test sets, unless outputs of these weights are cached; `last` checkpoints are averaged."""
    weights = weight_files(run, last)
    path, digests = run / "study-output.json", [digest(file) for file in weights]
    cached = read_output(path)
    sources = {name: test.sources for name, test in tests.items()}
    if cached.get("weights") != digests or cached.get("sources") != sources:
        cached = {"weights": digests, "sources": sources}
        translator = load(run / "model" if last is None else average(run, last=last)[0])
        started = time.monotonic()
        cached["outputs"] = {
            name: [each.text for each in translator.translate(test.sources)] for name, test in tests.items()
        }
        sentences = sum(len(test.sources) for test in tests.values())
        cached["sentences_per_second"] = round(sentences / (time.monotonic() - started), 1)
        write_file(path, json.dumps(sealed(cached), ensure_ascii=False))
    scores = {
        (name, metric.name): score(metric, cached["outputs"][name]).score
        for name, test in tests.items()
        for metric in build_metrics(metrics, test.gold)
    }
    parameters = count_parameters(weights[0])
    return RunResult(system, seed, run, cached["outputs"], scores, parameters, cached["sentences_per_second"])


def weight_files(run: Path, last: int | None) -> list[Path]:
    """The weights that a run is evaluated with: those of its best model, or of its last checkpoints."""
    checkpoints = Checkpoints(run / "checkpoints")
    folders = [run / "model"] if last is None else map(checkpoints.path, choose_steps(checkpoints, last, None))
    return [folder / WEIGHTS for folder in folders]


def read_output(path: Path) -> dict[str, Any]:
    """Read cached translations; empty if the file is missing or damaged."""
    try:
        return read_sealed_json(path)
    except DataError:
        return {}


def count_parameters(weights: Path) -> int:
    """Count parameters from the header of a safetensors file, where tied weights are stored once."""
    with safe_open(weights, "np") as file:
        shapes = [file.get_slice(name).get_shape() for name in file.keys()]  # noqa: SIM118
    return sum(math.prod(shape) for shape in shapes)


def compare_systems(
    results: Sequence[RunResult], baseline: str, tests: Mapping[str, TestSet], metrics: Sequence[str]
) -> list[SystemRow]:
    """Make a row per test set, metric and system, baseline first."""
    order = [baseline, *dict.fromkeys(each.system for each in results if each.system != baseline)]
    by_system = {system: [each for each in results if each.system == system] for system in order}
    rows = []
    for name, test in tests.items():
        outputs = {system: [each.outputs[name] for each in by_system[system]] for system in order}
        others = {system: outputs[system] for system in order[1:]}
        for metric in build_metrics(metrics, test.gold):
            p = compare_seeds(metric, outputs[baseline], others)
            scores = {system: [each.scores[name, metric.name] for each in by_system[system]] for system in order}
            base = fmean(scores[baseline])
            rows += [
                SystemRow(name, metric.name, system, scores[system], fmean(scores[system]) - base, p.get(system))
                for system in order
            ]
    return rows


def costs_of(results: Sequence[RunResult]) -> list[tuple[Cell, ...]]:
    """Costs of each system: the rows below the heading `COSTS`."""
    rows: list[tuple[Cell, ...]] = []
    for system in dict.fromkeys(each.system for each in results):
        own = [each for each in results if each.system == system]
        speeds = [speed for each in own for _, speed in read_records(each.run).curve("train", "tokens_per_second")]
        training = round(median(speeds)) if speeds else ""
        rows.append((system, own[0].parameters, training, round(median(each.decoding_speed for each in own), 1)))
    return rows


def flat_scores(result: RunResult) -> dict[str, float]:
    """Scores with JSON keys: `bleu`, or `test_2016 bleu` if there are several test sets."""
    return {f"{name} {metric}".strip(): value for (name, metric), value in result.scores.items()}
