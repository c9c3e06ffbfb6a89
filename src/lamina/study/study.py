"""A grid of recipes × seeds: train what is missing, evaluate, one table with mean, spread and significance."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Annotated, Any

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
from lamina.base.reading import read_json
from lamina.base.settings import Settings
from lamina.base.yaml_files import read_yaml
from lamina.corpus.prepared import META, PreparedData
from lamina.errors import LaminaError, UsageError
from lamina.recipe.loader import dump_recipe, load_recipe_for
from lamina.recipe.schema import Name
from lamina.scoring.files import read_test_set
from lamina.scoring.metrics import build_metrics, names_to_compare
from lamina.scoring.protocol import Gold, score
from lamina.scoring.significance import compare_seeds
from lamina.store.metrics import read_records
from lamina.study.launch import Show, Training, train_all, train_on_cluster
from lamina.translation import load

SHOWN = 6
TITLES = {"bleu": "BLEU"}


class Entry(Settings):
    """One system of a study: a recipe, and what is changed in it."""

    recipe: str  # a file beside the study, or a shipped recipe
    set: dict[str, Any] = Field(default_factory=dict)


class Study(Settings):
    """A study's file."""

    model_config = ConfigDict(strict=False)  # paths and seeds are text and lists in a file

    name: Name
    data: Path
    test: tuple[Path, Path]  # for m2 the second is the .m2 file
    references: tuple[Path, ...] = ()  # further ones
    metrics: tuple[str, ...] = ("bleu",)  # the table's; the first ranks
    steps: PositiveInt  # updates of every run
    seeds: Annotated[tuple[int, ...], Field(min_length=1)] = (1,)
    baseline: str  # the system that the others are compared with
    systems: Annotated[dict[Name, Entry], Field(min_length=1)]
    set: dict[str, Any] = Field(default_factory=dict)  # changed in every recipe
    degradation: bool = False  # also decode training pairs, for systems of several depths


@dataclass(frozen=True)
class RunResult:
    """What one run wrote, and its score."""

    system: str
    seed: int
    run: Path
    output: list[str]
    scores: dict[str, float]  # by metric


def read_study(path: Path) -> Study:
    """Every problem at once."""
    try:
        content = read_yaml(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UsageError(f"{path}: not found.") from error
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror}).") from error
    except (yaml.YAMLError, ValueError) as error:
        raise UsageError(f"{path}: not YAML ({' '.join(str(error).split())}).") from error
    try:
        study = Study.model_validate(content)
    except ValidationError as error:
        raise UsageError("\n".join(f"{path}: {problem}" for problem in describe(error, Study, content))) from error
    if len(set(study.seeds)) < len(study.seeds):
        raise UsageError(f"{path}: seeds: must all differ, but are {', '.join(map(str, study.seeds))} instead.")
    study = study.model_copy(update={"metrics": tuple(names_to_compare(study.metrics))})
    if study.baseline not in study.systems:
        raise UsageError(
            f"{path}: baseline: must be one of {', '.join(study.systems)}, but is {study.baseline} instead."
        )
    return study


def plan(study: Study, place: Path, out: Path, threads: int) -> list[Training]:
    """Every system with every seed; recipe files are relative to the study's."""
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
    """Train what is missing, evaluate, and write the table and the page; resumable at any moment."""
    sources, gold = read_test_set(study.test, study.references, m2="m2" in study.metrics)  # before any training
    data = PreparedData(study.data)
    gold = replace(gold, language=data.text.target.language)
    trainings = plan(study, place, out, threads)
    marks = {training.name: fingerprint(training, data) for training in trainings}
    missing = [training for training in trainings if not is_done(training, marks[training.name])]
    if cluster is None:
        train_all(missing, at_once, show)
        for training in missing:
            write_file(done_mark(training), marks[training.name])
    else:
        marked = [(training, done_mark(training), marks[training.name]) for training in missing]
        train_on_cluster(marked, out, cluster, options or {}, at_once, show)
    systems = [system for system in study.systems for _ in study.seeds]
    results = [
        evaluate(training, system, sources, gold, study.metrics)
        for training, system in zip(trainings, systems, strict=True)
    ]
    finding = summarise(study, results, gold)
    finding.write(out)
    write_page(study, results, finding, sources, gold, out)
    return finding


def done_mark(training: Training) -> Path:
    """A file that says which training is finished in a run."""
    return training.run / "study.txt"


def fingerprint(training: Training, data: PreparedData) -> str:
    """Changes when anything does that changes the run: the resolved recipe, or the data."""
    overrides = [f"name={training.name}", f"train.max_steps={training.steps}", *training.overrides]
    recipe = load_recipe_for(data, Path(training.recipe), overrides)
    return f"{digest(data.folder / META)}\n{dump_recipe(recipe)}"


def is_done(training: Training, mark: str) -> bool:
    """Whether a run was finished with this fingerprint; one of another recipe or other data is refused."""
    path = done_mark(training)
    if not path.is_file():
        return False
    if path.read_text(encoding="utf-8", errors="replace") != mark:
        raise UsageError(
            f"{training.run}: was trained with another recipe or other data than the study has now. Remove it to "
            "train it again, or choose another --out."
        )
    return True


def evaluate(training: Training, system: str, sources: Sequence[str], gold: Gold, metrics: Sequence[str]) -> RunResult:
    """Translate the test set, unless that was done with these weights before."""
    weights = digest(training.run / "model" / "model.safetensors")
    place = training.run / "study-output.json"
    known = read_json(place) if place.is_file() else {}
    if known.get("weights") != weights or known.get("sources") != list(sources):
        output = [each.text for each in load(training.run).translate(sources)]
        known = {"weights": weights, "sources": list(sources), "output": output}
        write_file(place, json.dumps(known, ensure_ascii=False))
    found = {metric.name: score(metric, known["output"]).score for metric in build_metrics(metrics, gold)}
    return RunResult(system, int(training.name.rpartition("-")[2]), training.run, known["output"], found)


def summarise(study: Study, results: Sequence[RunResult], gold: Gold) -> Finding:
    """Mean and spread over seeds; significance of the difference of means over resampled sentences."""
    order = [study.baseline, *(system for system in study.systems if system != study.baseline)]
    by_system = {system: [result for result in results if result.system == system] for system in order}
    outputs = {system: [result.output for result in each] for system, each in by_system.items()}
    others = {name: outputs[name] for name in order[1:]}
    p = {
        (metric.name, system): chance
        for metric in build_metrics(study.metrics, gold)
        for system, chance in compare_seeds(metric, outputs[study.baseline], others).items()
    }
    rows = [
        (*(() if len(study.metrics) == 1 else (metric,)), *summarise_system(system, metric, by_system, study, p))
        for metric in study.metrics
        for system in by_system
    ]
    if len(study.metrics) == 1:
        title = TITLES.get(study.metrics[0], study.metrics[0])
        head: tuple[str, ...] = ("system", "seeds", f"{title}, mean", "standard deviation", "difference", "p")
    else:
        head = ("metric", "system", "seeds", "mean", "standard deviation", "difference", "p")
    data = {
        "study": study.model_dump(mode="json"),
        "systems": [dict(zip(head, row, strict=True)) for row in rows],
        "runs": [{"system": each.system, "seed": each.seed, "run": str(each.run), **each.scores} for each in results],
    }
    reading = (
        f"{study.steps:,} updates of every run; difference and p are against {study.baseline}. p is from a paired "
        "bootstrap over test sentences, a system's score being the mean over its seeds; it says nothing of other seeds."
    )
    return Finding("study", study.name, reading, [], head, rows, data)


def summarise_system(
    system: str,
    metric: str,
    by_system: dict[str, list[RunResult]],
    study: Study,
    p: dict[tuple[str, str], float],
) -> tuple[Any, ...]:
    """One row: seeds, mean, spread, the difference to the baseline and its p."""
    scores = [result.scores[metric] for result in by_system[system]]
    base = fmean(result.scores[metric] for result in by_system[study.baseline])
    mean, spread = fmean(scores), round(stdev(scores), 2) if len(scores) > 1 else ""
    chance = p.get((metric, system))
    found = "" if chance is None else round(chance, 4)
    return system, len(scores), round(mean, 2), spread, round(mean - base, 2), found


def write_page(
    study: Study, results: Sequence[RunResult], finding: Finding, sources: list[str], gold: Gold, out: Path
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
    if gold.source is not None:
        references = [*gold.references[0]]
        parts.append(example_section(Outputs(sources, references, {each.system: each.output for each in first}), SHOWN))
    write_file(out / "report.html", page(study.name, parts))
