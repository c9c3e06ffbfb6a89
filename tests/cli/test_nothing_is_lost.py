"""User data is never lost, and errors are never silent."""

# ruff: noqa: E501

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import lamina
from lamina.base.files import digest
from lamina.base.reading import read_sealed_json, sealed
from lamina.corpus.prepared import PreparedData
from lamina.demo.grammar import write_demo
from lamina.errors import DataError, UsageError
from lamina.recipe.decode import SearchSettings
from lamina.scoring.protocol import Gold
from lamina.study import results
from lamina.text.subwords import Words, count_vocabulary
from lamina.translation import Translator
from support import run_lamina


@pytest.mark.parametrize(
    "options", [["--input", "missing.en"], ["--input", "{tmp}/latin1"], ["--prefix", "missing"]], ids=" ".join
)
def test_a_failed_translation_keeps_the_existing_output(options: list[str], straight: Path, tmp_path: Path) -> None:
    (tmp_path / "good.de").write_text("mine\n")
    (tmp_path / "latin1").write_bytes(b"caf\xe9\n")
    given = [option.format(tmp=tmp_path) for option in options]
    result = run_lamina("translate", straight, *given, "--output", tmp_path / "good.de", "--force", stdin="A dog.\n")
    assert result.returncode == 3
    assert (tmp_path / "good.de").read_text() == "mine\n"
    assert not list(tmp_path.glob("*.partial"))


def test_an_output_that_aliases_an_input_is_rejected(straight: Path, tmp_path: Path) -> None:
    (tmp_path / "in").write_text("A dog.\n")
    (tmp_path / "link").symlink_to(tmp_path / "in")
    os.link(tmp_path / "in", tmp_path / "hard")
    for name in ("link", "hard"):
        result = run_lamina("translate", straight, "--input", tmp_path / "in", "--output", tmp_path / name, "--force")
        assert (result.returncode, "is also an input" in result.stderr) == (2, True)
    assert (tmp_path / "in").read_text() == "A dog.\n"


def copy_run(straight: Path, tmp_path: Path) -> Path:
    shutil.copytree(straight, tmp_path / "run")
    return tmp_path / "run"


def train(data: Path, run: Path, *options: str | Path):
    return run_lamina("train", data / "recipe.yaml", "--data", data / "data", "--out", run, *options)


@pytest.mark.parametrize("damage", ["removed", "damaged"])
def test_a_trained_run_never_restarts_silently(damage: str, data: Path, straight: Path, tmp_path: Path) -> None:
    run = copy_run(straight, tmp_path)
    if damage == "removed":
        shutil.rmtree(run / "checkpoints")
    else:
        for path in run.glob("checkpoints/*/model.safetensors"):
            path.write_bytes(b"damaged")
    before = {path.relative_to(run): digest(path) for path in (run / "model").iterdir()}, digest(run / "metrics.jsonl")
    result = train(data, run)
    assert result.returncode == 3
    assert "has no usable checkpoint to resume from. Restore" in result.stderr
    assert ({p.relative_to(run): digest(p) for p in (run / "model").iterdir()}, digest(run / "metrics.jsonl")) == before


def test_a_run_without_a_model_folder_loads_a_checkpoint(straight: Path, tmp_path: Path) -> None:
    run = copy_run(straight, tmp_path)
    expected = run_lamina("translate", run, stdin="A dog runs.\n").stdout
    shutil.rmtree(run / "model")
    assert run_lamina("translate", run, stdin="A dog runs.\n").stdout == expected


def test_a_run_that_was_killed_before_it_recorded_its_best_step_still_ends_with_it(
    data: Path, straight: Path, tmp_path: Path
) -> None:
    run = copy_run(straight, tmp_path)
    best = (run / "checkpoints" / "best.txt").read_text()
    others = [path.name for path in run.glob("checkpoints/step_*") if f"{path.name}\n" != best]
    (run / "checkpoints" / "best.txt").write_text(f"{others[0]}\n")
    assert train(data, run).returncode == 0
    assert (run / "checkpoints" / "best.txt").read_text() == best
    assert digest(run / "model" / "model.safetensors") == digest(straight / "model" / "model.safetensors")


def test_a_start_that_was_killed_while_it_wrote_its_first_files_is_repeated(
    data: Path, straight: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    run.mkdir()
    shutil.copy(straight / "run.json", run)  # which is written first; the recipe follows
    (run / "recipe.yaml.partial").write_text("sys")
    result = train(data, run, "--set", "train.max_steps=3", "--set", "train.warmup=2")
    assert result.returncode == 0, result.stderr
    assert not list(run.glob("*.partial"))


def test_a_failed_start_does_not_fix_the_recipe(data: Path, tmp_path: Path) -> None:
    assert train(data, tmp_path / "run", "--init-from", tmp_path).returncode == 3
    assert train(data, tmp_path / "run", "--set", "train.max_steps=9", "--set", "train.warmup=2").returncode == 0


def test_max_steps_cannot_change_with_a_decaying_schedule(data: Path, tmp_path: Path) -> None:
    cosine = ["--set", "train.schedule=cosine", "--set", "train.warmup=2"]
    assert train(data, tmp_path / "run", *cosine, "--set", "train.max_steps=4").returncode == 0
    result = train(data, tmp_path / "run", *cosine, "--set", "train.max_steps=8")
    assert result.returncode == 2
    assert "cannot be resumed with a different train.max_steps: it was 4 and is now 8." in result.stderr


def test_damaged_weights_are_never_used(straight: Path, tmp_path: Path) -> None:
    run = copy_run(straight, tmp_path)
    weights = load_file(run / "model" / "model.safetensors")
    save_file(
        {name: torch.full_like(each, torch.nan) for name, each in weights.items()}, run / "model" / "model.safetensors"
    )
    config = read_sealed_json(run / "model" / "config.json")
    assert "damaged (SHA-256 does not match" in run_lamina("translate", run, stdin="A\n").stderr
    config["sha256"]["model.safetensors"] = digest(run / "model" / "model.safetensors")
    (run / "model" / "config.json").write_text(json.dumps(config))
    (tmp_path / "a").write_text("A dog.\n")
    result = run_lamina("rescore", run, "--source", tmp_path / "a", "--target", tmp_path / "a")
    assert (result.returncode, result.stdout) == (3, "")
    assert "a:1: log p is not finite; the model's weights are damaged." in result.stderr


def test_a_failed_preparation_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("A dog.\n")
    (tmp_path / "codes").write_text("not merges at all\n")
    files = ["--train", tmp_path / "a", tmp_path / "a", "--valid", tmp_path / "a", tmp_path / "a"]
    out = tmp_path / "data"
    failed = run_lamina("prepare", *files, "--valid", tmp_path / "a", tmp_path / "missing", "--out", out)
    assert failed.returncode == 3
    assert not out.exists()
    (tmp_path / "b").write_bytes(b"\xff\n")
    failed = run_lamina(
        "prepare", *files[:3], "--valid", tmp_path / "a", tmp_path / "b", "--vocab-size", "300", "--out", out
    )
    assert failed.returncode == 3
    assert not out.exists()
    assert (
        run_lamina("prepare", *files, "--bpe-codes", tmp_path / "codes", "--workers", "1", "--out", out).returncode == 3
    )
    assert not out.exists()
    assert run_lamina("prepare", *files, "--vocab-size", "300", "--out", out).returncode == 0


@pytest.mark.slow
def test_two_preparations_exclude_each_other(tmp_path: Path) -> None:
    write_demo(tmp_path, train=4000, valid=10, test=1)
    command = [sys.executable, "-m", "lamina", "prepare", "--out", tmp_path / "data", "--quiet", "--workers", "1"]
    for split in ("train", "valid"):
        command += [f"--{split}", tmp_path / f"{split}.en", tmp_path / f"{split}.de"]
    first = subprocess.Popen(command, stderr=subprocess.PIPE)
    while not (tmp_path / "data" / "plan.json").exists():
        time.sleep(0.05)
    second = run_lamina(*command[3:])
    assert second.returncode == 2
    assert "another process is preparing data in this folder." in second.stderr
    assert first.communicate(timeout=120)[1] == b""
    assert first.returncode == 0
    assert PreparedData(str(tmp_path / "data")).is_whole()


def test_vocabularies_of_different_widths(tmp_path: Path) -> None:
    """More than 65,536 entries on one side only, so that id types differ."""
    (tmp_path / "a.en").write_text("".join(f"w{n} w{n + 1}\n" for n in range(0, 70_000, 2)))
    (tmp_path / "a.de").write_text("x\n" * 35_000)
    files = ["--train", tmp_path / "a.en", tmp_path / "a.de", "--valid", tmp_path / "a.en", tmp_path / "a.de"]
    options = ["--subwords", "none", "--separate-vocab", "--no-filter", "all", "--workers", "1"]
    assert run_lamina("prepare", *files, *options, "--out", tmp_path / "data").returncode == 0
    data = PreparedData(tmp_path / "data")
    source, target = data.split("train")[34_999]
    assert data.text.source.decode(source.tolist()) == "w69998 w69999"
    assert data.text.target.decode(target.tolist()) == "x"


@pytest.mark.parametrize("line", ["<pad> a </s>", r"\<pad> \\</s> <s> <unk>", "a <unk>"])
def test_special_symbols_in_text_stay_text(line: str) -> None:
    from collections import Counter

    words = Words(count_vocabulary(Counter(line.split()), None))
    (ids,) = words.encode([line])
    assert all(token > 3 for token in ids[:-1])
    assert words.decode(ids) == line


def test_sampling_draws_from_the_distribution(straight: Path) -> None:
    """The mean log p of samples is far below that of the best; earlier versions printed the best of several."""
    translator = lamina.load(straight)
    best = translator.translate("A dog runs.")
    from lamina.search.sampling import SamplingSettings

    drawn = [translator.translate("A dog runs.", sampling=SamplingSettings(seed=seed)) for seed in range(8)]
    many = translator.translate("A dog runs.", nbest=8, sampling=SamplingSettings(seed=1))
    assert len(many.nbest) == 8
    assert [each.log_prob for each in many.nbest] != sorted((each.log_prob for each in many.nbest), reverse=True)
    assert sum(each.log_prob / len(each.tokens) for each in drawn) / 8 < best.log_prob / len(best.tokens)


def test_python_uses_the_runs_own_decode(data: Path, tmp_path: Path) -> None:
    options = [
        "--set",
        "decode.beam=2",
        "--set",
        "decode.lenpen=0.3",
        "--set",
        "train.max_steps=9",
        "--set",
        "train.warmup=2",
    ]
    assert train(data, tmp_path / "run", *options).returncode == 0
    translator = lamina.load(tmp_path / "run")
    assert (translator.settings.beam, translator.settings.lenpen) == (2, 0.3)
    line = run_lamina("translate", tmp_path / "run", "--format", "jsonl", stdin="A dog runs.\n").stdout
    assert json.loads(line)["score"] == round(translator.translate("A dog runs.").score, 6)


def test_analyses_use_the_runs_own_decode(
    data: Path, straight: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, used, search = copy_run(straight, tmp_path), [], Translator._search_all
    config = read_sealed_json(run / "model" / "config.json")
    config["decode"] |= {"beam": 1, "max_length": [0.0, 3]}
    (run / "model" / "config.json").write_text(json.dumps(sealed(config)))

    def noted(self: Translator, sources: Any, settings: SearchSettings, *rest: Any, **more: Any) -> Any:
        used.append((settings.beam, settings.max_length))
        return search(self, sources, settings, *rest, **more)

    monkeypatch.setattr(Translator, "_search_all", noted)
    test = ["--test", data / "valid.en", data / "valid.de"]
    assert run_lamina("analyze", "difficulty", run, "--checkpoints", "1", *test).returncode == 0
    assert run_lamina("analyze", "report", run, *test).returncode == 0
    sources, references = ((data / f"valid.{language}").read_text().splitlines() for language in ("en", "de"))
    results.evaluate(run, "fused", 1, {"": results.TestSet(sources, Gold([references]))}, ("bleu",), None)
    assert len(used) >= 3
    assert set(used) == {(1, (0.0, 3))}


@pytest.mark.slow
def test_a_study_notices_that_its_recipe_changed(data: Path, tmp_path: Path) -> None:
    recipe = (data / "recipe.yaml").read_text()
    (tmp_path / "recipe.yaml").write_text(recipe)
    (tmp_path / "study.yaml").write_text(
        f"name: s\ndata: {data / 'data'}\ntest: [{data / 'valid.en'}, {data / 'valid.de'}]\nsteps: 9\n"
        "baseline: a\nsystems: {a: {recipe: recipe.yaml}}\n"
    )
    command = ["study", tmp_path / "study.yaml", "--out", tmp_path / "out", "--quiet"]
    assert run_lamina(*command).returncode == 0
    assert run_lamina(*command).returncode == 0
    (tmp_path / "recipe.yaml").write_text(recipe.replace("lr: 2.0e-3", "lr: 1.0e-3"))
    changed = run_lamina(*command)
    assert changed.returncode == 2
    assert "was trained with a recipe or data that differ from the study's." in changed.stderr


@pytest.mark.parametrize("locale", ["C", "POSIX", "en_US.ISO-8859-1"])
def test_output_is_utf8_regardless_of_the_locale(locale: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("Füße\n", encoding="utf-8")
    environment = {**os.environ, "LC_ALL": locale, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-m", "lamina", "score", "--hyp", tmp_path / "a", "--ref", tmp_path / "Übung"]
    done = subprocess.run(command, env=environment, capture_output=True, timeout=120, check=False)
    assert done.returncode == 3
    assert done.stderr.decode("utf-8") == f"lamina: {tmp_path / 'Übung'}: not found.\n"


@pytest.mark.slow
def test_a_closed_pipe(straight: Path, tmp_path: Path) -> None:
    (tmp_path / "in").write_text("A dog runs.\n" * 400)
    command = f"{sys.executable} -m lamina translate {straight} --input {tmp_path / 'in'} --beam 1 --quiet | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, timeout=300, check=False)
    assert done.returncode in (0, 141)
    assert done.stderr == b""


def test_errors_do_not_go_to_stdout() -> None:
    command = f"{sys.executable} -m lamina systems mcs-72 2>&-"
    done = subprocess.run(["bash", "-c", command], stdout=subprocess.PIPE, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (2, b"")


def test_closed_streams(tmp_path: Path) -> None:
    command = f"{sys.executable} -m lamina score --hyp {tmp_path / 'a'} --ref {tmp_path / 'b'} <&- >&- 2>&-"
    assert subprocess.run(["bash", "-c", command], timeout=120, check=False).returncode == 3


@pytest.mark.slow
def test_ctrl_c_while_subwords_are_learned(tmp_path: Path) -> None:
    write_demo(tmp_path, train=40_000, valid=10, test=1)
    command = [sys.executable, "-m", "lamina", "prepare", "--out", tmp_path / "data", "--workers", "1"]
    for split in ("train", "valid"):
        command += [f"--{split}", tmp_path / f"{split}.en", tmp_path / f"{split}.de"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    while not (tmp_path / "data" / "plan.json").exists():
        time.sleep(0.05)
    time.sleep(0.7)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode != 0
    assert not (tmp_path / "data" / "meta.json").exists()
    assert b"Traceback" not in said


@pytest.mark.slow
def test_a_path_that_is_not_utf8(data: Path, tmp_path: Path) -> None:
    run = os.fsencode(tmp_path) + b"/\xff-run"
    command = [sys.executable, "-m", "lamina", "train", data / "recipe.yaml", "--data", data / "data", "--out", run]
    command += ["--set", "train.max_steps=9", "--set", "train.warmup=2", "--quiet"]
    done = subprocess.run(command, capture_output=True, timeout=300, check=False)
    assert done.returncode == 2
    assert done.stderr.endswith(b"\xff-run: the path is not UTF-8, which safetensors requires. Choose another.\n")
    assert not os.path.exists(run)


def test_user_errors_are_not_reported_as_unexpected() -> None:
    """`unexpected` is for bugs; every error that a user can cause has its own message."""
    source = Path(lamina.__file__).parent
    users = [
        path for path in source.rglob("*.py") if re.search(r'"lamina: unexpected', path.read_text(encoding="utf-8"))
    ]
    assert [path.name for path in users] in ([], ["__init__.py"])


def test_prefixes_are_forced_or_refused(straight: Path) -> None:
    from lamina.search.sampling import SamplingSettings

    translator = lamina.load(straight)
    with pytest.raises(UsageError, match=r"prefixes apply only to beam search; omit sampling\."):
        translator.translate("A dog runs.", prefixes="Ein", sampling=SamplingSettings())
    with pytest.raises(DataError, match=r"There are more prefixes than lines to translate\."):
        translator.translate(["A dog runs."], prefixes=["Ein", "Ein"])
    with pytest.raises(DataError, match=r"There are fewer prefixes than lines to translate\."):
        translator.translate(["A dog runs.", "A cat."], prefixes=["Ein"])
