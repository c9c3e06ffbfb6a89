"""Recipes: all errors are reported together, with line, key and remedy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lamina.errors import UsageError
from lamina.recipe.loader import RecipeError, dump_recipe, load_recipe, read_resolved
from lamina.recipe.schema import TrainSettings
from lamina.training.schedule import learning_rate

GOOD = """\
name: good
system: surface-fusion
model: {size: tiny, dropout: 0.3, head: {gate: learned}}
train: {max_steps: 500, lr: 5.0e-3, warmup: 100}
decode: {beam: 4}
"""


def load(text: str, folder: Path, *overrides: str | tuple[str, Any], sizes: tuple[int, int] = (100, 100)) -> object:
    path = folder / "recipe.yaml"
    path.write_text(text)
    return load_recipe(path, overrides, sizes, sizes[0] == sizes[1])


def test_a_recipe_is_resolved_and_read_back(tmp_path: Path) -> None:
    recipe = load(GOOD, tmp_path, "train.seed=7", "model.encoder.layers=2")
    assert (recipe.model.d_model, recipe.model.norm, recipe.model.encoder.layers) == (128, "post", 2)
    assert (recipe.model.head.gate, recipe.train.seed, recipe.decode.beam) == ("learned", 7, 4)
    (tmp_path / "resolved.yaml").write_text(dump_recipe(recipe))
    assert read_resolved(tmp_path / "resolved.yaml") == recipe


def test_numbers_may_have_an_exponent_without_a_point(tmp_path: Path) -> None:
    assert load(GOOD.replace("5.0e-3", "5e-3"), tmp_path).train.lr == 5e-3
    recipe = load(GOOD, tmp_path, "train.lr=2E-4", "name='1e-3'")
    assert recipe.train.lr == 2e-4
    (tmp_path / "resolved.yaml").write_text(dump_recipe(recipe))
    assert read_resolved(tmp_path / "resolved.yaml") == recipe


MISTAKES = [line.split("\t") for line in (Path(__file__).parent / "recipe_mistakes.tsv").read_text().splitlines()[1:]]


@pytest.mark.parametrize(("before", "after", "message"), MISTAKES, ids=lambda value: str(value)[:30])
def test_errors(before: str, after: str, message: str, tmp_path: Path) -> None:
    assert before in GOOD
    with pytest.raises(RecipeError) as caught:
        load(GOOD.replace(before, after), tmp_path)
    assert str(caught.value) == message
    assert caught.value.exit_code == 2


def test_all_errors_are_reported_together(tmp_path: Path) -> None:
    with pytest.raises(RecipeError) as caught:
        load(GOOD.replace("dropout", "droput").replace("lr:", "rate:").replace("beam: 4", "beam: x"), tmp_path)
    assert [line.split()[0] for line in str(caught.value).splitlines()] == [f"recipe.yaml:{n}:" for n in (3, 4, 5)]


def test_errors_in_overrides_name_the_option(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"^--set train\.sed: not an option\. Did you mean `seed`\?$"):
        load(GOOD, tmp_path, "train.sed=3")
    with pytest.raises(RecipeError, match=r"^argument train\.sed: not an option\. Did you mean `seed`\?$"):
        load(GOOD, tmp_path, ("train.sed", 3))
    with pytest.raises(RecipeError, match=r"^--set decode\.min_length: must be at most 22, "):
        load(GOOD, tmp_path, "decode.min_length=500")
    with pytest.raises(
        RecipeError, match=r"^--set model\.bridge\.type: must be one of .* Did you mean `fine_grained`\?$"
    ):
        load(GOOD, tmp_path, "model.bridge.type=fine-grained")
    with pytest.raises(UsageError, match=r"^argument train.lr.x: `train.lr` has no keys below it"):
        load(GOOD, tmp_path, ("train.lr.x", 3))
    with pytest.raises(UsageError, match=r"--set must be key.path=value, but is `seed` instead"):
        load(GOOD, tmp_path, "seed")
    with pytest.raises(UsageError, match=r"--set name.first: `name` has no keys below it"):
        load(GOOD, tmp_path, "name.first=x")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [1\nb: 2\n", r"recipe.yaml:2: not YAML"),
        ("- a\n- b\n", "must be a mapping with keys such as"),
        ("model: 3\n", "model: must be a mapping, but is 3 instead"),
    ],
)
def test_files_that_are_not_recipes(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=message):
        load(text, tmp_path)


def test_a_missing_recipe(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"none.yaml: not found"):
        load_recipe(tmp_path / "none.yaml", [], (10, 10), True)


def test_two_vocabularies_share_only_decoder_embeddings(tmp_path: Path) -> None:
    assert load(GOOD, tmp_path, sizes=(100, 90)).model.share_embeddings == "decoder"
    with pytest.raises(RecipeError, match=r"model.share_embeddings: `all` needs one vocabulary"):
        load(GOOD, tmp_path, "model.share_embeddings=all", sizes=(100, 90))


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("inverse_sqrt", {1: 1e-3, 10: 1e-2, 40: 0.5e-2, 100: 1e-2 * 0.1**0.5}),
        ("linear", {10: 1e-2, 55: 0.5e-2, 100: 0.0}),
        ("cosine", {10: 1e-2, 55: 0.5e-2, 100: 0.0}),
        ("constant", {5: 0.5e-2, 11: 1e-2, 100: 1e-2}),
    ],
)
def test_schedules(schedule: str, expected: dict[int, float]) -> None:
    train = TrainSettings(lr=1e-2, warmup=10, max_steps=100, schedule=schedule)
    for step, rate in expected.items():
        assert learning_rate(train, step) == pytest.approx(rate, abs=1e-6)
