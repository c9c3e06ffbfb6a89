"""The JSON schema of recipe files, for completion and validation in editors."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import Any

from lamina.base.settings import Settings
from lamina.model.config import SOCKETS, ModelConfig
from lamina.model.decoder import DecoderSettings
from lamina.recipe.decode import SearchSettings
from lamina.recipe.schema import TrainSettings
from lamina.systems.published import SIZES, SYSTEMS

FROM_THE_DATA = ("source_vocab", "target_vocab")


def recipe_schema() -> dict[str, Any]:
    """The schema of a recipe file; all keys are optional, since systems and sizes provide defaults."""
    model = properties(ModelConfig)
    for name in FROM_THE_DATA:
        del model[name]
    model |= {"size": {"enum": list(SIZES)}, "decoder": mapping(properties(DecoderSettings))}
    model |= {socket: one_of(choices) for socket, choices in SOCKETS.items()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Lamina recipe",
        **mapping(
            {
                "name": {"type": "string"},
                "system": {"enum": list(SYSTEMS)},
                "model": mapping(model),
                "train": mapping(properties(TrainSettings)),
                "decode": mapping(properties(SearchSettings)),
            }
        ),
    }


def properties(settings: type[Settings]) -> dict[str, Any]:
    """The schemas of a settings class's options; the description is the field's, or the comment on its line."""
    schemas, meanings = settings.model_json_schema().get("properties", {}), comments(settings)
    for name, schema in schemas.items():
        schema.pop("title", None)
        if name in meanings:
            schema.setdefault("description", meanings[name].replace("None", "`null`"))
    return schemas


def comments(kind: type[Any]) -> dict[str, str]:
    """Comments on the fields of a class, including inherited ones."""
    code = [inspect.getsource(each) for each in reversed(kind.__mro__) if each.__module__.startswith("lamina")]
    return {name: meaning for text in code for name, meaning in re.findall(r"(?m)^    (\w+): [^#\n]*  # (.+)$", text)}


def mapping(options: dict[str, Any]) -> dict[str, Any]:
    """The schema of an object with these keys and no others."""
    return {"type": "object", "properties": options, "additionalProperties": False}


def one_of(choices: Mapping[str, type[Settings]]) -> dict[str, Any]:
    """The schema of a socket: the options of all choices, or those of one choice once `type` is given."""
    options: dict[str, Any] = {}
    only: list[dict[str, Any]] = []
    for name, settings in choices.items():
        own = properties(settings)
        options |= own
        given = {"properties": {"type": {"const": name}}, "required": ["type"]}
        only.append({"if": given, "then": {"propertyNames": {"enum": list(own)}}})
    return {**mapping({**options, "type": {"enum": list(choices)}}), "allOf": only}
