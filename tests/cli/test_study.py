"""`lamina study`: systems × seeds from one file, killed and resumed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest
import yaml

from lamina.errors import StoppedError
from lamina.recipe.loader import load_recipe
from lamina.recipe.shipped import find_recipe
from lamina.study import launch
from lamina.study.results import RunResult
from lamina.study.study import describe_steps, plan, read_study
from support import run_lamina

STUDIES = sorted((Path(__file__).parents[2] / "studies").glob("*.yaml"))
STUDY = """\
name: small
data: {data}/data
test: [{data}/few.en, {data}/few.de]
steps: 8
seeds: [1, 2]
baseline: plain
systems:
  plain: {{recipe: recipe.yaml, set: {{system: transformer}}}}
  fused: {{recipe: recipe.yaml}}
set: {{train.warmup: 4, train.save_every: 4, train.gradients_every: 2}}
"""


@pytest.fixture
def few(data: Path) -> tuple[Path, Path]:
    """A test set of six pairs."""
    for language in ("en", "de"):
        lines = (data / f"valid.{language}").read_text().splitlines()[:6]
        (data / f"few.{language}").write_text("".join(f"{line}\n" for line in lines))
    return data / "few.en", data / "few.de"


@pytest.fixture
def study(data: Path, few: tuple[Path, Path], tmp_path: Path) -> Path:
    (tmp_path / "recipe.yaml").write_text((data / "recipe.yaml").read_text())
    path = tmp_path / "study.yaml"
    path.write_text(STUDY.format(data=data))
    return path


@pytest.mark.slow
def test_a_killed_study_resumes(study: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-m", "lamina", "study", str(study), "--out", str(out)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 120
        while not (out / "runs" / "plain-2").is_dir() and time.monotonic() < deadline:
            time.sleep(0.1)
        process.send_signal(signal.SIGKILL)
    result = run_lamina("study", study, "--out", out)
    assert result.returncode == 0, result.stderr
    found = json.loads((out / "study.json").read_text())
    scores = {(each["system"], each["seed"]): each["bleu"] for each in found["runs"]}
    assert set(scores) == {(system, seed) for system in ("plain", "fused") for seed in (1, 2)}
    plain, fused = found["systems"]
    assert (plain["system"], plain["difference"], plain["p"]) == ("plain", 0.0, "")
    mine = [scores["fused", 1], scores["fused", 2]]
    assert fused["BLEU, mean"] == pytest.approx(fmean(mine))
    assert fused["standard deviation"] == pytest.approx(stdev(mine))
    assert 0 <= fused["p"] <= 1
    page = (out / "report.html").read_text()
    assert all(heading in page for heading in ("Training", "Gradient norm", "Sentences"))
    weights = [(run / "model" / "model.safetensors").stat().st_mtime_ns for run in sorted((out / "runs").glob("*-?"))]
    again = run_lamina("study", study, "--out", out)
    assert again.stdout == result.stdout
    assert weights == [
        (run / "model" / "model.safetensors").stat().st_mtime_ns for run in sorted((out / "runs").glob("*-?"))
    ]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("steps: 8", "steps: 0", "{study}: steps: must be greater than 0, but is 0 instead."),
        ("seeds: [1, 2]", "seed: 3", "{study}: seed: not an option. Did you mean `seeds`?"),
        ("baseline: plain", "baseline: plan", "{study}: baseline: must be one of plain, fused, but is `plan` instead."),
        ("name: small", "", "{study}: name: is required."),
        ("test: [", "references: [a]\ntest: {a: [a, b], b: [a, b]} #", "{study}: references: need a single test set"),
        ("test: [", "test: [a, ", "{study}: test: must be [SRC, TGT], or a mapping such as {{name: [SRC, TGT]}}, but"),
        ("name: small", "name: [", "{study}:3: not YAML: expected"),
    ],
)
def test_errors(old: str, new: str, message: str, study: Path) -> None:
    study.write_text(study.read_text().replace(old, new))
    result = run_lamina("study", study)
    assert result.returncode == 2
    assert result.stderr.startswith(f"lamina: {message.format(study=study)}")


def test_a_training_that_was_killed_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = "import os, signal; print('step 3', flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    monkeypatch.setattr(launch.Training, "command", lambda _: [sys.executable, "-c", script])
    monkeypatch.setattr(launch, "POLL", 0.01)
    training = launch.Training("plain-1", "r.yaml", tmp_path, tmp_path / "plain-1", 8, (), 1)
    with pytest.raises(launch.TrainingError) as caught:
        launch.train_all([training], 1, lambda *_: None)
    assert str(caught.value) == f"{tmp_path / 'plain-1.log'}: killed by SIGKILL. step 3"


@pytest.mark.parametrize(
    ("options", "threads"),
    [
        ([], ["--threads", "8"]),
        (["--jobs", "3"], ["--threads", "2"]),
        (["--jobs", "99"], ["--threads", "1"]),
        (["--jobs", "3", "--threads", "5"], ["--threads", "5"]),
        (["--jobs", "3", "--cluster", "local"], ["--threads", "2"]),
        (["--cluster", "slurm"], []),  # its job's cores
        (["--cluster", "slurm", "--threads", "5"], ["--threads", "5"]),
    ],
    ids=" ".join,
)
def test_runs_share_the_cores_that_the_study_may_use(
    options: list[str], threads: list[str], study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[list[str]] = []

    def launch_nothing(trainings: list[Any], *_: object) -> None:
        commands.extend((each[0] if isinstance(each, tuple) else each).command() for each in trainings)
        raise StoppedError("Enough.", 75)

    for name in ("train_all", "train_on_cluster"):
        monkeypatch.setattr(f"lamina.study.study.{name}", launch_nothing)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(10**6, 10**6 + 8)))  # of a larger machine
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert run_lamina("study", study, "--out", tmp_path / "out", *options).returncode == 75
    assert len(commands) == 4
    for command in commands:
        found = command[command.index("--threads") :][:2] if "--threads" in command else []
        assert found == threads


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "target", "message"),
    [
        ("average: 3", None, "average: needs 3 checkpoints, but `plain-1` keeps 2; lower train.save_every, or raise"),
        ("", "这是一只狗。", "BLEU"),
    ],
    ids=["too few checkpoints", "no tokenizer"],
)
def test_what_cannot_be_evaluated_is_not_trained(
    line: str, target: str | None, message: str, study: Path, few: tuple[Path, Path]
) -> None:
    study.write_text(f"{study.read_text()}{line}\n")
    if target is not None:
        few[1].write_text(f"{target}\n" * 6)
    result = run_lamina("study", study, "--out", study.parent / "out")
    assert result.returncode == 2
    assert message in result.stderr
    assert not (study.parent / "out").exists()


def test_runs_that_stopped_early_are_named(tmp_path: Path) -> None:
    results = []
    for name, step in (("plain-1", 500), ("plain-2", 300)):
        (tmp_path / name).mkdir()
        record = {"kind": "valid", "step": step, "loss": 2.0}
        (tmp_path / name / "metrics.jsonl").write_text(f"{json.dumps(record)}\n")
        results.append(RunResult("plain", 1, tmp_path / name, {}, {}, 1, 1.0))
    assert describe_steps(500, results) == "At most 500 updates (stopped early: plain-2 at 300)"
    assert describe_steps(500, results[:1]) == "500 updates per run"


def test_an_unknown_recipe(study: Path, tmp_path: Path) -> None:
    study.write_text(study.read_text().replace("fused: {recipe: recipe.yaml}", "fused: {recipe: no-such-recipe}"))
    result = run_lamina("study", study, "--out", tmp_path / "out", "--jobs", "4", "--quiet")
    assert result.returncode == 2
    assert "no-such-recipe: neither a file nor the name of a system or shipped recipe." in result.stderr


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_shipped_studies_name_shipped_recipes_that_load(path: Path) -> None:
    study = read_study(path)
    assert len(study.systems) > 1
    for training in plan(study, path.parent, Path("out"), 1):
        overrides = [*training.overrides, f"train.max_steps={training.steps}"]
        recipe = load_recipe(find_recipe(Path(training.recipe)), overrides, (10_000, 10_000), True)
        assert recipe.train.seed in study.seeds


@pytest.mark.slow
@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_shipped_studies_run_for_two_steps(path: Path, data: Path, few: tuple[Path, Path], tmp_path: Path) -> None:
    """Shrinks every study for a CPU, but runs all its trainings, averages, scores and pages."""
    content = yaml.safe_load(path.read_text())
    tests = content["test"]
    content |= {"data": str(data / "data"), "steps": 2, "seeds": content["seeds"][:2]}
    pair = [str(each) for each in few]
    content["test"] = dict.fromkeys(tests, pair) if isinstance(tests, dict) else pair
    small = {"model.d_model": 8, "model.ffn_size": 8, "model.heads": 2, "train.batch_tokens": 256}
    content["set"] = (
        content.get("set", {}) | small | {"train.warmup": 1, "train.save_every": 1, "train.validate_every": 2}
    )
    content["average"] = content.get("average") and 2
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    result = run_lamina("study", tmp_path / "study.yaml", "--out", tmp_path / "out", "--jobs", "2", "--quiet")
    assert result.returncode == 0, result.stderr
    found = json.loads((tmp_path / "out" / "study.json").read_text())
    assert {row["system"] for row in found["systems"]} == set(content["systems"])
    assert {row["system"] for row in found["costs"]} == set(content["systems"])
    tested = len(tests) if isinstance(tests, dict) else 1
    assert len(found["systems"]) == len(content["systems"]) * tested * len(content.get("metrics", ["bleu"]))
