"""Shipped recipes: each loads, builds, is commented line by line, and matches the papers."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

from lamina.cli import app
from lamina.errors import UsageError
from lamina.model.config import ModelConfig
from lamina.recipe.loader import load_recipe
from lamina.recipe.schema import Recipe
from lamina.recipe.shipped import ShippedRecipe, find_recipe, shipped_names, shipped_recipe
from lamina.systems.build import count_parameters, resolve
from lamina.systems.published import SYSTEMS, find_configuration

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "docs" / "demo-corpus.md", *sorted((ROOT / "docs" / "corpora").glob("*.md"))]
PARTS = ["Paper", "Task", "Runs on", "Corpus", "Prepare", "Train", "Evaluate", "Parameters", "Published", "Measured"]
FENCED = re.compile(r"^```\w+\n.*?^```\n", flags=re.DOTALL | re.MULTILINE)  # code, not commands
NAMES = shipped_names()
DROPOUTS = {"dropout": 0.1, "attention_dropout": 0.0}  # the defaults

each_recipe = pytest.mark.parametrize("recipe", [*map(ShippedRecipe, NAMES)], ids=lambda recipe: recipe.name)


def stated_parameters(recipe: ShippedRecipe) -> tuple[int, int]:
    """Parameters and vocabulary entries stated in the recipe's header."""
    parameters, entries = re.match(r"([\d,]+) at ([\d,]+) vocabulary entries", recipe.head["Parameters"]).groups()
    return int(parameters.replace(",", "")), int(entries.replace(",", ""))


@cache
def load(name: str) -> Recipe:
    recipe = shipped_recipe(name)
    entries = stated_parameters(recipe)[1]
    return load_recipe(recipe.file, [], (entries, entries), True)


@cache
def count(config: str) -> int:
    """Count parameters, cached since several recipes have the same model."""
    return count_parameters(ModelConfig.model_validate_json(config))


@pytest.mark.slow
@each_recipe
def test_it_loads_and_has_the_parameters_it_states(recipe: ShippedRecipe) -> None:
    loaded = load(recipe.name)
    assert loaded.name == recipe.name
    assert count(loaded.model.model_copy(update=DROPOUTS).model_dump_json()) == stated_parameters(recipe)[0]


@pytest.mark.parametrize(
    ("name", "configuration", "millions"),
    [
        ("multi30k-en-de-transformer-post", "transformer-post-tiny", 2.57),
        ("iwslt14-en-de-transformer-6", "transformer-small", 10.50),
        ("iwslt14-en-de-msc-6", "msc-6", 15.64),
        ("iwslt14-de-en-msc-36", "msc-36", 43.29),
        ("iwslt17-en-fr-msc-54", "msc-54", 59.87),
        ("iwslt14-en-de-msc-72", "msc-72", 76.46),
        ("iwslt14-en-de-msc-72-no-context", "block-scale-72", 45.29),
        ("iwslt14-en-de-msc-wide-18", "msc-wide-18", 101.37),
        ("iwslt14-en-de-msc-wide-36", "msc-wide-36", 167.57),
        ("iwslt14-en-de-transparent-36", "transparent-36", 26.31),
        ("iwslt14-en-de-transparent-72", "transparent-72", 45.29),
        ("iwslt14-en-de-dlcl-36", "dlcl-36", 26.34),
        ("iwslt14-en-de-dlcl-72", "dlcl-72", 45.33),
    ],
)
def test_it_matches_the_configuration_of_systems(name: str, configuration: str, millions: float) -> None:
    system, at = find_configuration(configuration)
    config = resolve(system, at.size, at.vocab_size, {"encoder": {"layers": at.encoder_layers}})
    assert load(name).model.model_copy(update=DROPOUTS) == config
    assert round(stated_parameters(shipped_recipe(name))[0] / 1e6, 2) == millions
    if at.published_parameters is not None:
        assert shipped_recipe(name).head["Parameters"].endswith(f"(published: {at.published_parameters})")


def test_list_of_shipped_recipes() -> None:
    small = [name for name in NAMES if name.startswith("multi30k-en-de-")]
    elsewhere = {"pointer-generator", "hierarchical", "depth-growing"}  # they need documents, or a trained model
    assert sorted(small) == sorted(f"multi30k-en-de-{system}" for system in SYSTEMS.keys() - elsewhere)
    assert all(shipped_recipe(name).content["system"] == name.removeprefix("multi30k-en-de-") for name in small)
    talks = ("iwslt14-en-de", "iwslt14-de-en", "iwslt17-en-fr")
    wanted = {f"{task}-msc-{depth}" for task in talks for depth in (6, 36, 54, 72)}
    wanted |= {f"multi30k-en-fr-{system}" for system in ("transformer-post", "surface-fusion", "msc")}
    wanted |= {"wmt16-en-ro-surface-fusion", "wmt16-en-ro-fine-grained", "cnn-dailymail-msc-36", "enja-msc"}
    assert wanted <= set(NAMES)
    assert NAMES.index("iwslt14-en-de-msc-6") < NAMES.index("iwslt14-en-de-msc-36")


@each_recipe
def test_its_header_is_complete(recipe: ShippedRecipe) -> None:
    assert re.fullmatch(r"[A-Z].+\.", recipe.summary)
    assert list(recipe.head) == PARTS
    assert all(recipe.head.values())
    assert recipe.head["Runs on"] == ("CPU" if recipe.content["model"]["size"] == "tiny" else "GPU")
    data = re.search(r"--out (\S+)$", recipe.head["Prepare"])[1]
    assert recipe.head["Train"] == f"lamina train {recipe.name} --data {data}"
    assert f"runs/{recipe.name}" in recipe.head["Evaluate"]
    page = ROOT / recipe.head["Corpus"]
    assert f"`{recipe.name}`" in page.read_text(encoding="utf-8")


@each_recipe
def test_every_line_has_a_comment(recipe: ShippedRecipe) -> None:
    lines = [line for line in recipe.text.splitlines() if line and not line.startswith("#")]
    assert len(lines) > 10
    assert [line for line in lines if not re.search(r"\S +# \w", line)] == []
    assert max(map(len, recipe.text.splitlines())) <= 120


def test_pages_name_no_recipe_that_does_not_exist() -> None:
    tasks = "|".join(
        sorted({"-".join(name.split("-")[:2]) for name in NAMES} | {"demo", "enja", "aeslc", "jfleg", "conll14"})
    )
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    named = set(re.findall(rf"`((?:{tasks})-[\w-]+)`", text))
    assert named == set(NAMES)


def commands() -> Iterator[tuple[str, str]]:
    """Every `lamina COMMAND …` in pages and headers, with its location."""
    for page in PAGES:
        text = FENCED.sub("", page.read_text(encoding="utf-8"))
        for block in re.findall(r"^```\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE):
            for line in block.replace("\\\n", " ").splitlines():
                if "lamina " in line:
                    yield page.name, line[line.index("lamina ") :]
    for recipe in map(ShippedRecipe, NAMES):
        for part in ("Prepare", "Train", "Evaluate"):
            for command in re.findall(r"lamina .*?(?=, then|,? then |$)", recipe.head[part]):
                yield recipe.name, command


def test_their_commands_exist() -> None:
    verbs: Any = typer.main.get_command(app).commands
    found = list(commands())
    assert len(found) > 3 * len(NAMES)
    for place, command in found:
        _, verb, *words = command.split()
        known = {option for parameter in verbs[verb].params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= known, f"{place}: {command}"


PUBLISHED = {
    "wmt16-en-ro-surface-fusion": "about 35.1 BLEU",
    "multi30k-en-de-transformer-post": "41.02 BLEU",
    **dict(zip([f"iwslt14-en-de-msc-{n}" for n in (6, 36, 54, 72)], ["27.49", "29.04", "29.32", "29.67"], strict=True)),
    **dict(zip([f"iwslt14-de-en-msc-{n}" for n in (6, 36, 54, 72)], ["33.10", "34.86", "35.16", "35.81"], strict=True)),
    **dict(zip([f"iwslt17-en-fr-msc-{n}" for n in (6, 36, 54, 72)], ["41.53", "42.90", "43.62", "44.15"], strict=True)),
    "iwslt14-en-de-transformer-6": "27.23",
    "iwslt14-de-en-transformer-6": "32.73",
    "iwslt17-en-fr-transformer-6": "41.19",
    "iwslt14-en-de-msc-72-addition": "29.45",
    "iwslt14-en-de-msc-72-ffn-cell": "29.17",
    "iwslt14-en-de-msc-72-no-context-attention": "28.99",
    "iwslt14-en-de-msc-72-no-context": "28.94",
    "iwslt14-en-de-msc-wide-18": "29.08",
    "iwslt14-en-de-msc-wide-36": "29.41",
    "iwslt14-en-de-transparent-36": "28.09",
    "iwslt14-en-de-dlcl-36": "28.63",
    "iwslt14-en-de-dlcl-72": "28.34",
    "wmt14-en-de-transformer-base": "27.44",
    "wmt14-en-de-msc-6-base": "27.68",
    "wmt14-en-de-msc-36-base": "29.71",
    "wmt14-en-de-msc-48-base": "30.19",
    "wmt14-en-de-transformer-big": "28.86",
    "wmt14-en-de-msc-6-big": "29.17",
    "wmt14-en-de-msc-18-big": "30.56",
    "cnn-dailymail-msc-36": "ROUGE-1/2/L 41.96/19.50/39.07",
    "cnn-dailymail-transformer-6": "ROUGE-1/2/L 40.28/17.87/37.25",
    "cnn-dailymail-hierarchical-36": "ROUGE-1/2/L 41.22/18.97/38.45",
    "cnn-dailymail-pointer-generator": "ROUGE-1/2/L 39.53/17.28/36.38",
    **{name: "ROUGE-1/2/L 15.04/7.39/14.93" for name in NAMES if name.startswith("aeslc-")},
    "jfleg-synthetic-pointer-generator": "GLEU 38.21",
}


@each_recipe
def test_published_figures(recipe: ShippedRecipe) -> None:
    published = recipe.head["Published"]
    assert re.match(rf"{PUBLISHED.get(recipe.name, 'none')}\b", published)


@pytest.mark.parametrize(
    ("name", "tokens", "lr", "warmup", "max_steps", "dropout", "beam", "lenpen"),
    [
        ("wmt16-en-ro-surface-fusion", 16_384, 5e-4, 4_000, 60_000, 0.3, 4, 1.0),
        ("multi30k-en-de-transformer-post", 8_192, 5e-3, 2_000, 8_000, 0.3, 5, 1.0),
        ("iwslt14-en-de-msc-6", 16_384, (256 * 4_000) ** -0.5, 4_000, 15_000, 0.1, 5, 1.0),
        ("iwslt14-de-en-msc-72", 32_768, (256 * 8_000) ** -0.5, 8_000, 15_000, 0.3, 5, 1.0),
        ("wmt14-en-de-msc-48-base", 65_536, (512 * 8_000) ** -0.5, 8_000, 100_000, 0.3, 4, 0.6),
        ("wmt14-en-de-msc-18-big", 65_536, (1024 * 16_000) ** -0.5, 16_000, 300_000, 0.3, 4, 0.6),
    ],
)
def test_published_training(
    name: str, tokens: int, lr: float, warmup: int, max_steps: int, dropout: float, beam: int, lenpen: float
) -> None:
    recipe = load(name)
    assert recipe.train.batch_tokens * recipe.train.accumulate == tokens
    assert recipe.train.lr == pytest.approx(lr, rel=0.02)
    assert (recipe.train.warmup, recipe.train.max_steps, recipe.model.dropout) == (warmup, max_steps, dropout)
    assert (recipe.decode.beam, recipe.decode.lenpen) == (beam, lenpen)
    assert recipe.train.betas == ((0.9, 0.998) if name.endswith("big") else (0.9, 0.98))


def test_only_72_layers_of_msc_have_l2() -> None:
    regular = {name for name in NAMES if load(name).train.encoder_l2 == 1e-5}
    assert regular == {name for name in NAMES if "-msc-72" in name}
    assert {load(name).train.encoder_l2 for name in NAMES} == {1e-5, None}


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("addition", {"encoder.fusion": "add", "bridge.fusion": "add"}),
        ("ffn-cell", {"encoder.cell": "ffn"}),
        ("no-context-attention", {"encoder.context_attention": False}),
    ],
)
def test_an_ablation_changes_only_what_it_states(name: str, changed: dict[str, Any]) -> None:
    whole, ablated = load("iwslt14-en-de-msc-72"), load(f"iwslt14-en-de-msc-72-{name}")
    assert ablated.train == whole.train
    expected = whole.model.model_dump()
    for key, value in changed.items():
        socket, option = key.split(".")
        assert expected[socket][option] != value
        expected[socket][option] = value
    assert ablated.model.model_dump() == expected


def test_the_wheel_contains_all_recipes() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = [each for each in settings["tool"]["setuptools"]["package-data"]["lamina"] if each.endswith(".yaml")]
    packed = {file.stem for pattern in patterns for file in (ROOT / "src" / "lamina").glob(pattern)}
    assert packed == set(NAMES)


def test_a_file_takes_precedence_over_a_shipped_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    given = Path("multi30k-en-de-msc")
    given.mkdir()
    assert find_recipe(given).read_text(encoding="utf-8") == shipped_recipe("multi30k-en-de-msc").text
    given.rmdir()
    given.write_text("name: mine\n")
    assert find_recipe(given) == given


def test_an_unknown_name() -> None:
    with pytest.raises(UsageError) as caught:
        find_recipe(Path("nowhere/multi30k-en-de-msk.yaml"))
    assert str(caught.value) == (
        "nowhere/multi30k-en-de-msk.yaml: neither a file nor the name of a system or shipped recipe. Did you mean "
        "`multi30k-en-de-msc`? `lamina systems` and `lamina recipes` list them."
    )
