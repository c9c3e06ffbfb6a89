"""The JSON schema accepts what the loader accepts and reports errors."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator
from test_recipe import GOOD

from lamina.recipe.json_schema import recipe_schema
from support import run_lamina

VALIDATOR = Draft202012Validator(recipe_schema())


def complaints(text: str) -> list[str]:
    content: Any = yaml.safe_load(text)
    return [".".join(map(str, error.absolute_path)) + ": " + error.message for error in VALIDATOR.iter_errors(content)]


def test_the_command_prints_a_valid_schema() -> None:
    printed = json.loads(run_lamina("recipes", "schema").stdout)
    assert printed == json.loads(json.dumps(recipe_schema()))
    Draft202012Validator.check_schema(printed)


def test_every_key_is_explained() -> None:
    """Editors show the descriptions; `type` and the parts of a model need none."""
    schema: Any = recipe_schema()["properties"]
    options = {**schema["train"]["properties"], **schema["decode"]["properties"]}
    options |= schema["model"]["properties"]["decoder"]["properties"]
    options |= schema["model"]["properties"]["head"]["properties"]
    assert [name for name, option in options.items() if "description" not in option and name != "type"] == []
    assert options["batch_tokens"]["description"].startswith("padded target tokens")
    assert options["clip_norm"]["description"].endswith("`null` disables clipping")


def test_a_good_recipe_passes() -> None:
    assert complaints(GOOD) == []
    assert complaints("model: {encoder: {layers: 36}, head: {type: surface, gate: learned}}") == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("trian: {}", "'trian' was unexpected"),
        ("train: {sed: 1}", "'sed' was unexpected"),
        ("system: mcs", "'mcs' is not one of"),
        ("model: {encoder: {type: stack, cell: gru}}", "'cell' is not one of"),
        ("model: {source_vocab: 9}", "'source_vocab' was unexpected"),
        ("train: {save_every: often}", "is not valid under any of the given schemas"),
        ("model: {head: {type: surface, gate: 2}}", "is not valid under any of the given schemas"),
    ],
)
def test_errors_are_detected(text: str, expected: str) -> None:
    assert any(expected in complaint for complaint in complaints(text)), complaints(text)
