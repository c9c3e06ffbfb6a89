"""`lamina recipes`, and training by a recipe's name."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

from lamina.recipe.shipped import shipped_names, shipped_recipe
from lamina.store.model_folder import load_model_folder
from support import Finished, run_lamina

NAME = "multi30k-en-de-msc"
HINT = "Did you mean `multi30k-en-de-msc`? `lamina recipes` lists all recipes."
SYSTEMS_HINT = "Did you mean `multi30k-en-de-msc`? `lamina systems` and `lamina recipes` list them."
VOCABULARY = 500  # entries of the demo data
CPU = [name for name in shipped_names() if shipped_recipe(name).head["Runs on"] == "CPU"]


def test_list() -> None:
    result = run_lamina("recipes", "list")
    assert (result.returncode, result.stderr) == (0, "Next: lamina recipes show multi30k-en-de-surface-fusion\n")
    head, *rows = result.stdout.splitlines()
    assert head.split() == ["recipe", "system", "task", "size", "runs", "on"]
    assert [row.split()[0] for row in rows] == shipped_names()
    (row,) = [row.split() for row in rows if row.startswith("iwslt14-en-de-msc-72-no-context ")]
    assert row[1:] == ["block-scale", "translation", "en→de", "(IWSLT14)", "small", "GPU"]
    assert run_lamina("recipes") == result


def test_show() -> None:
    result = run_lamina("recipes", "show", NAME)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == shipped_recipe(NAME).text
    assert result.stdout.startswith("# MSC, multiscale collaboration, on Multi30k en→de.\n")


def test_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data" / "multi30k-en-de").mkdir(parents=True)
    result = run_lamina("recipes", "copy", NAME)
    assert (result.returncode, result.stdout) == (0, f"{NAME}.yaml\n")
    assert result.stderr == f"Next: lamina train {NAME}.yaml --data data/multi30k-en-de\n"
    assert Path(f"{NAME}.yaml").read_text(encoding="utf-8") == shipped_recipe(NAME).text
    elsewhere = run_lamina("recipes", "copy", NAME, "--out", "my recipe.yaml")
    assert elsewhere.stderr == "Next: lamina train 'my recipe.yaml' --data data/multi30k-en-de\n"
    assert Path("my recipe.yaml").is_file()


def test_copy_never_overwrites(tmp_path: Path) -> None:
    mine = tmp_path / "recipe.yaml"
    mine.write_text("mine")
    result = run_lamina("recipes", "copy", NAME, "--out", mine)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == f"lamina: {mine}: already exists; choose another --out or remove it.\n"
    assert mine.read_text() == "mine"


@pytest.mark.parametrize("verb", ["show", "copy"])
def test_a_wrong_name(verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_lamina("recipes", verb, "multi30k-en-de-msk") == Finished(
        2, "", f"lamina: Unknown recipe `multi30k-en-de-msk`. {HINT}\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_torch_is_not_imported(tmp_path: Path) -> None:
    script = f"""
import sys
from lamina.cli import main
for words in (["list"], ["show", "{NAME}"], ["copy", "{NAME}"]):
    sys.argv = ["lamina", "recipes", *words]
    try:
        main()
    except SystemExit as end:
        assert not end.code, words
print("torch" in sys.modules)
"""
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True, cwd=tmp_path
    )
    assert result.stdout.splitlines()[-1] == "False"
    assert (tmp_path / f"{NAME}.yaml").is_file()


def train(name: str, data: Path, out: Path, *overrides: str) -> Finished:
    options = [word for override in overrides for word in ("--set", override)]
    return run_lamina("train", name, "--data", data / "data", "--out", out, *options)


def test_train_by_name(data: Path, tmp_path: Path) -> None:
    shape = ("model.d_model=16", "model.ffn_size=32", "model.encoder.layers=2", "model.decoder.layers=2")
    result = train(NAME, data, tmp_path / "run", *shape, "train.max_steps=2", "train.warmup=1")
    assert result.returncode == 0, result.stderr
    written = (tmp_path / "run" / "recipe.yaml").read_text(encoding="utf-8")
    assert f"name: {NAME}\nsystem: msc\n" in written
    assert load_model_folder(tmp_path / "run" / "model").model.config.encoder.type == "msc"


def test_train_by_a_wrong_name(data: Path, tmp_path: Path) -> None:
    result = train("multi30k-en-de-msk", data, tmp_path / "run")
    message = f"lamina: multi30k-en-de-msk: neither a file nor the name of a system or shipped recipe. {SYSTEMS_HINT}\n"
    assert result == Finished(2, "", message)
    assert not (tmp_path / "run").exists()


def test_an_error_in_a_shipped_recipe_has_its_line_number(data: Path, tmp_path: Path) -> None:
    result = train(NAME, data, tmp_path / "run", "model.bridge.type=layerwise", "model.decoder.layers=3")
    line = (
        shipped_recipe(NAME).text.splitlines().index("  encoder:               # MSC's own choices, as in the paper")
        + 1
    )
    assert result.returncode == 2
    assert f"{NAME}.yaml:{line}: model.encoder" in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", CPU)
def test_every_cpu_recipe_trains(name: str, data: Path, tmp_path: Path) -> None:
    short = (
        "train.max_steps=20",
        "train.warmup=10",
        "train.batch_tokens=512",
        "train.ema=null",
    )
    result = train(name, data, tmp_path / "run", *short)
    assert result.returncode == 0, result.stderr
    records = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    last = [record for record in records if record["kind"] == "valid"][-1]
    assert last["step"] == 20
    assert last["loss"] < math.log(VOCABULARY) - 1  # far below the loss of a uniform guess
