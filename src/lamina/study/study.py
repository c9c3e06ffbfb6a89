"""A grid of recipes × seeds: train what is missing, evaluate, one table with mean, spread and significance."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import yaml
from pydantic import ConfigDict, Field, PositiveInt, ValidationError

from lamina.analysis.degradation import analyze_degradation
from lamina.analysis.finding import Finding
from lamina.analysis.gradients import analyze_gradients
from lamina.analysis.page import page, paragraph, section, table
from lamina.analysis.sections import Outputs, curve_section, example_section
from lamina.base.cluster import Cluster
from lamina.base.files import digest, write_file
from lamina.base.problems import describe
from lamina.base.settings import Settings
from lamina.corpus.reading import TwoFiles
from lamina.errors import LaminaError, UsageError
from lamina.recipe.loader import read_yaml
from lamina.scoring.compare import compare_outputs
from lamina.scoring.protocol import Gold
from lamina.scoring.sacre import corpus_bleu
from lamina.store.metrics import read_records
from lamina.study.launch import Show, Training, train_all, train_on_cluster
from lamina.translation import load

SHOWN = 6


class Entry(Settings):
    """One system of a study: a recipe, and what is changed in it."""

    recipe: str  # a file beside the study, or a shipped recipe
    set: dict[str, Any] = Field(default_factory=dict)


class Study(Settings):
    """A study's file."""

    model_config = ConfigDict(strict=False)  # paths and seeds are text and lists in a file

    name: str
    data: Path
    test: tuple[Path, Path]
    steps: PositiveInt  # updates of every run
    seeds: tuple[int, ...] = (1,)
    baseline: str  # the system that the others are compared with
    systems: dict[str, Entry]
    set: dict[str, Any] = Field(default_factory=dict)  # changed in every recipe
    degradation: bool = False  # also decode training pairs, for systems of several depths


@dataclass(frozen=True)
class RunResult:
    """What one run wrote, and its score."""

    system: str
    seed: int
    run: Path
    output: list[str]
    bleu: float


def read_study(path: Path) -> Study:
    """Every problem at once."""
    try:
        content = read_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: not found.") from error
    except yaml.YAMLError as error:
        raise UsageError(f"{path}: not YAML ({error}).") from error
    try:
        study = Study.model_validate(content)
    except ValidationError as error:
        raise UsageError("\n".join(f"{path}: {problem}" for problem in describe(error, Study, content))) from error
    if study.baseline not in study.systems:
        raise UsageError(
            f"{path}: baseline: must be one of {', '.join(study.systems)}, but is {study.baseline} instead."
        )
    return study


def plan(study: Study, place: Path, out: Path, threads: int) -> list[Training]:
    """Every system with every seed; recipes that are files stand beside the study's."""
    trainings = []
    for system, entry in study.systems.items():
        beside = place / entry.recipe
        recipe = str(beside) if beside.is_file() else entry.recipe
        changes = {**study.set, **entry.set}
        for seed in study.seeds:
            overrides = [f"{key}={json.dumps(value)}" for key, value in changes.items()]
            name = f"{system}-{seed}"
            trainings.append(
                Training(
                    name,
                    recipe,
                    study.data,
                    out / "runs" / name,
                    study.steps,
                    (*overrides, f"train.seed={seed}"),
                    threads,
                )
            )
    return trainings


def run_study(
    study: Study,
    place: Path,
    out: Path,
    at_once: int,
    threads: int,
    show: Show,
    cluster: Cluster | None = None,
    options: dict[str, Any] | None = None,
) -> Finding:
    """Train what is missing, evaluate, and write the table and the page; killed, it goes on where it stopped."""
    trainings = plan(study, place, out, threads)
    missing = [training for training in trainings if not is_done(training)]
    if cluster is None:
        train_all(missing, at_once, show)
        for training in missing:
            write_file(done_mark(training), fingerprint(training))
    else:
        marked = [(training, done_mark(training), fingerprint(training)) for training in missing]
        train_on_cluster(marked, out, cluster, options or {}, at_once, show)
    pairs = list(TwoFiles(*study.test).pairs())
    sources, references = [source for source, _ in pairs], [target for _, target in pairs]
    systems = [system for system in study.systems for _ in study.seeds]
    results = [
        evaluate(training, system, sources, references) for training, system in zip(trainings, systems, strict=True)
    ]
    finding = summarise(study, results, sources, references)
    finding.write(out)
    write_page(study, results, finding, sources, references, out)
    return finding


def done_mark(training: Training) -> Path:
    """A file that says which training is finished in a run."""
    return training.run / "study.txt"


def fingerprint(training: Training) -> str:
    """Changes when anything does that changes the run."""
    return " ".join(replace(training, threads=0).command()[4:])


def is_done(training: Training) -> bool:
    """Whether a run was finished by the same command."""
    mark = done_mark(training)
    return mark.is_file() and mark.read_text(encoding="utf-8") == fingerprint(training)


def evaluate(training: Training, system: str, sources: Sequence[str], references: Sequence[str]) -> RunResult:
    """Translate the test set, unless that was done with these weights before."""
    weights = digest(training.run / "model" / "model.safetensors")
    place = training.run / "study-output.json"
    known = json.loads(place.read_text(encoding="utf-8")) if place.is_file() else {}
    if known.get("weights") != weights or known.get("sources") != list(sources):
        output = [each.text for each in load(training.run).translate(sources)]
        known = {"weights": weights, "sources": list(sources), "output": output}
        write_file(place, json.dumps(known, ensure_ascii=False))
    bleu = corpus_bleu(known["output"], references)
    return RunResult(system, int(training.name.rpartition("-")[2]), training.run, known["output"], bleu)


def summarise(study: Study, results: Sequence[RunResult], sources: list[str], references: list[str]) -> Finding:
    """Mean and spread over seeds; significance over the sentences of all seeds together."""
    order = [study.baseline, *(system for system in study.systems if system != study.baseline)]
    by_system = {system: [result for result in results if result.system == system] for system in order}
    together = [[line for result in each for line in result.output] for each in by_system.values()]
    times = len(study.seeds)
    gold = Gold([references * times], sources * times, False, [str(study.test[1])])
    p = {}
    if len(order) > 1:
        p = {row.system: row.p_bootstrap for row in compare_outputs(order, together, gold, metrics=["bleu"])}
    base = fmean(result.bleu for result in by_system[study.baseline])
    rows = []
    for system, each in by_system.items():
        scores = [result.bleu for result in each]
        mean, spread = fmean(scores), round(stdev(scores), 2) if len(scores) > 1 else ""
        chance = p.get(system)
        found = "" if chance is None else round(chance, 4)
        rows.append((system, len(scores), round(mean, 2), spread, round(mean - base, 2), found))
    head = ("system", "seeds", "BLEU, mean", "standard deviation", "difference", "p")
    data = {
        "study": study.model_dump(mode="json"),
        "systems": [dict(zip(head, row, strict=True)) for row in rows],
        "runs": [
            {"system": each.system, "seed": each.seed, "run": str(each.run), "bleu": each.bleu} for each in results
        ],
    }
    reading = (
        f"{study.steps:,} updates of every run; difference and p (paired bootstrap over the test sentences of all "
        f"seeds, which knows nothing of other seeds) are against {study.baseline}."
    )
    return Finding("study", study.name, reading, [], head, rows, data)


def write_page(
    study: Study, results: Sequence[RunResult], finding: Finding, sources: list[str], references: list[str], out: Path
) -> None:
    """`report.html`: the table, curves of the first seed, gradients, depth if asked, and examples."""
    first = [result for result in results if result.seed == study.seeds[0]]
    runs = [result.run for result in first]
    parts = [paragraph(finding.reading), table(finding.head, finding.texts(finding.rows))]
    parts.append(curve_section({result.system: read_records(result.run) for result in first}))
    attempts: list[Callable[[], Finding]] = [lambda: analyze_gradients(runs)]
    if study.degradation:
        attempts.append(lambda: analyze_degradation([result.run for result in results], study.data))
    for attempt in attempts:
        try:
            found = attempt()
            found.write(out)
            parts.append(found.as_section())
        except LaminaError as error:
            parts.append(section("Left out", paragraph(str(error), "soft")))
    parts.append(example_section(Outputs(sources, references, {each.system: each.output for each in first}), SHOWN))
    write_file(out / "report.html", page(study.name, parts))
