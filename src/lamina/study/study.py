"""A study: train missing runs of a grid of systems × seeds, evaluate them and tabulate mean, spread and p-values."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BeforeValidator, ConfigDict, Field, PositiveInt, ValidationError
from pydantic_core import PydanticCustomError

from lamina.analysis.degradation import analyze_degradation
from lamina.analysis.finding import Finding
from lamina.analysis.gradients import analyze_gradients
from lamina.analysis.page import page, paragraph, section, table
from lamina.analysis.sections import Outputs, curve_section, example_section
from lamina.base.cluster import Cluster
from lamina.base.files import digest, write_file
from lamina.base.problems import describe_errors
from lamina.base.settings import Settings
from lamina.base.wording import counted
from lamina.base.yaml_files import explain_yaml_error, read_yaml
from lamina.corpus.prepared import META, PreparedData
from lamina.errors import LaminaError, UsageError
from lamina.recipe.loader import dump_recipe, load_recipe_for
from lamina.recipe.schema import Name, Recipe
from lamina.scoring.files import read_test_set
from lamina.scoring.metrics import build_metrics, names_to_compare
from lamina.store.history import read_records
from lamina.study.launch import Show, Training, train_all, train_on_cluster
from lamina.study.results import (
    COSTS,
    COSTS_NOTE,
    RunResult,
    TestSet,
    compare_systems,
    costs_of,
    evaluate,
    flat_scores,
)

EXAMPLES = 6
TITLES = {"bleu": "BLEU"}


class Entry(Settings):
    """One system of a study: a recipe and its overrides."""

    recipe: str  # a file beside the study, or a shipped recipe
    set: dict[str, Any] = Field(default_factory=dict)


Pair = tuple[Path, Path]


def pair_or_pairs(test: Any) -> Any:
    """Validate test sets: two files, or a mapping of names to two files each."""
    pairs = list(test.values()) if isinstance(test, dict) else [test]
    if pairs and all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs):
        return test
    raise PydanticCustomError(
        "choice",
        "must be [SRC, TGT], or a mapping such as {example}, but is {test} instead.",
        {"example": "{name: [SRC, TGT]}", "test": repr(test)},
    )


class Study(Settings):
    """Schema of a study file."""

    model_config = ConfigDict(strict=False)  # YAML has strings for paths and lists for tuples

    name: Name
    data: Path
    test: Annotated[Pair | dict[Name, Pair], BeforeValidator(pair_or_pairs)]  # for m2, the targets are .m2 files
    references: tuple[Path, ...] = ()  # additional references, for a single test set
    metrics: tuple[str, ...] = ("bleu",)  # the first one ranks systems
    steps: PositiveInt  # of every run
    seeds: Annotated[tuple[int, ...], Field(min_length=1)] = (1,)
    baseline: str  # system to compare the others with
    systems: Annotated[dict[Name, Entry], Field(min_length=1)]
    set: dict[str, Any] = Field(default_factory=dict)  # overrides for every recipe
    average: PositiveInt | None = None  # average the last K checkpoints instead of evaluating the best
    degradation: bool = False  # also score training pairs, for systems of several depths

    @property
    def tests(self) -> dict[str, tuple[Path, Path]]:
        """Test sets by name; a single one is named ""."""
        return dict(self.test) if isinstance(self.test, dict) else {"": self.test}


def read_study(path: Path) -> Study:
    """Read and validate a study file; all schema problems are reported together."""
    try:
        content = read_yaml(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UsageError(f"{path}: not found.") from error
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror}).") from error
    except (yaml.YAMLError, ValueError) as error:
        raise UsageError(explain_yaml_error(path, error)) from error
    try:
        study = Study.model_validate(content)
    except ValidationError as error:
        problems = describe_errors(error, Study, content)
        raise UsageError("\n".join(f"{path}: {problem}" for problem in problems)) from error
    if len(set(study.seeds)) < len(study.seeds):
        raise UsageError(f"{path}: seeds: must all differ, but are {', '.join(map(str, study.seeds))} instead.")
    if study.references and len(study.tests) > 1:
        raise UsageError(f"{path}: references: need a single test set, but there are {len(study.tests)}.")
    study = study.model_copy(update={"metrics": tuple(names_to_compare(study.metrics))})
    if study.baseline not in study.systems:
        raise UsageError(
            f"{path}: baseline: must be one of {', '.join(study.systems)}, but is `{study.baseline}` instead."
        )
    return study


def plan(study: Study, folder: Path, out: Path, threads: int | None) -> list[Training]:
    """List the trainings of every system and seed; recipe files are relative to the study's folder."""
    trainings = []
    for system, entry in study.systems.items():
        recipe_file = folder / entry.recipe
        recipe = str(recipe_file) if recipe_file.is_file() else entry.recipe
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
    folder: Path,
    out: Path,
    at_once: int,
    threads: int | None,
    show: Show,
    cluster: Cluster | None = None,
    options: dict[str, Any] | None = None,
) -> Finding:
    """Train missing runs, evaluate, and write table and page; resumes if interrupted."""
    tests = {name: read_test(study, pair) for name, pair in study.tests.items()}  # before any training
    data = PreparedData(study.data)
    tests = {name: test.in_language(data.text.target.language) for name, test in tests.items()}
    for test in tests.values():
        build_metrics(study.metrics, test.gold)  # raises if one cannot be computed
    trainings = plan(study, folder, out, threads)
    recipes = {training.name: resolve_recipe(training, data) for training in trainings}
    if study.average is not None:
        check_average(study.average, recipes)
    data_digest = digest(data.folder / META)
    fingerprints = {name: f"{data_digest}\n{dump_recipe(recipe)}" for name, recipe in recipes.items()}
    missing = [training for training in trainings if not is_done(training, fingerprints[training.name])]
    if cluster is None:
        train_all(missing, at_once, show)
        for training in missing:
            write_file(done_mark(training), fingerprints[training.name])
    else:
        marked = [(training, done_mark(training), fingerprints[training.name]) for training in missing]
        train_on_cluster(marked, out, cluster, options or {}, at_once, show)
    systems = [system for system in study.systems for _ in study.seeds]
    results = [
        evaluate(training.run, system, seed, tests, study.metrics, study.average)
        for training, system, seed in zip(trainings, systems, study.seeds * len(study.systems), strict=True)
    ]
    finding = summarise(study, results, tests)
    finding.write(out)
    write_page(study, results, finding, tests, out)
    return finding


def read_test(study: Study, pair: tuple[Path, Path]) -> TestSet:
    """Read a test set's sources and references."""
    return TestSet(*read_test_set(pair, study.references, m2="m2" in study.metrics))


def done_mark(training: Training) -> Path:
    """File that marks a run as finished and holds its fingerprint."""
    return training.run / "study.txt"


def resolve_recipe(training: Training, data: PreparedData) -> Recipe:
    """The complete recipe of a run."""
    overrides = [f"name={training.name}", f"train.max_steps={training.steps}", *training.overrides]
    return load_recipe_for(data, Path(training.recipe), overrides)


def check_average(count: int, recipes: Mapping[str, Recipe]) -> None:
    """Raise unless every run keeps this many checkpoints."""
    for name, recipe in recipes.items():
        train = recipe.train
        saved = train.keep_last
        if isinstance(train.save_every, int):
            saved = min(saved, -(-train.max_steps // train.save_every))  # the last step is saved as well
        if saved < count:
            raise UsageError(
                f"average: needs {count} checkpoints, but `{name}` keeps {saved}; lower train.save_every, or raise "
                "train.keep_last."
            )


def is_done(training: Training, fingerprint: str) -> bool:
    """Whether a run is finished; raise if its fingerprint differs."""
    path = done_mark(training)
    if not path.is_file():
        return False
    if path.read_text(encoding="utf-8", errors="replace") != fingerprint:
        raise UsageError(
            f"{training.run}: was trained with a recipe or data that differ from the study's. Delete it to train it "
            "again, or choose another --out."
        )
    return True


def summarise(study: Study, results: Sequence[RunResult], tests: Mapping[str, TestSet]) -> Finding:
    """Summarise mean and spread over seeds, significance over seeds and sentences, and costs."""
    rows = compare_systems(results, study.baseline, tests, study.metrics)
    several = {"test": len(tests) > 1, "metric": len(study.metrics) > 1}
    title = "mean" if several["metric"] else f"{TITLES.get(study.metrics[0], study.metrics[0])}, mean"
    shown = [column for column in ("test", "metric") if several[column]]
    head = (*shown, "system", "seeds", title, "standard deviation", "difference", "p")
    cells = [(*(getattr(row, column) for column in shown), *row.cells()) for row in rows]
    costs = [dict(zip(COSTS, each, strict=True)) for each in costs_of(results)]
    data = {
        "study": study.model_dump(mode="json"),
        "systems": [dict(zip(head, row, strict=True)) for row in cells],
        "costs": costs,
        "runs": [
            {"system": each.system, "seed": each.seed, "run": str(each.run), **flat_scores(each)} for each in results
        ],
    }
    tested = (
        "p comes from a t-test over seeds and test sentences together."
        if len(study.seeds) > 1
        else "p comes from a paired bootstrap over test sentences, with one seed; another may give a different result."
    )
    averaged = f", the average of the last {counted(study.average, 'checkpoint')}" if study.average else ""
    relative = f"difference and p are relative to {study.baseline}"
    reading = f"{describe_steps(study.steps, results)}{averaged}; {relative}. {tested}"
    return Finding("study", study.name, reading, [], head, cells, data)


def describe_steps(steps: int, results: Sequence[RunResult]) -> str:
    """The number of updates of the runs, some of which may have stopped early."""
    last = {each.run.name: read_records(each.run).curve("valid", "loss")[-1][0] for each in results}
    early = [f"{name} at {step:,}" for name, step in last.items() if step < steps]
    updates = counted(steps, "update")
    return f"At most {updates} (stopped early: {', '.join(early)})" if early else f"{updates} per run"


def write_page(
    study: Study, results: Sequence[RunResult], finding: Finding, tests: Mapping[str, TestSet], out: Path
) -> None:
    """Write `report.html`: tables, curves of the first seed, gradients, optional degradation, and examples."""
    first = [result for result in results if result.seed == study.seeds[0]]
    runs = [result.run for result in first]
    parts = [paragraph(finding.reading), table(finding.head, finding.texts(finding.rows))]
    parts.append(section("Costs", paragraph(COSTS_NOTE, "soft"), table(COSTS, finding.texts(costs_of(results)))))
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
            parts.append(section("Not included", paragraph(str(error), "soft")))
    name, test = next(iter(tests.items()))
    if test.gold.source is not None:
        outputs = {each.system: each.outputs[name] for each in first}
        parts.append(example_section(Outputs(test.sources, [*test.gold.references[0]], outputs), EXAMPLES))
    write_file(out / "report.html", page(study.name, parts))
