"""The JSON schema of a recipe file, for editors that complete and check YAML."""

from __future__ import annotations

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
    """What a recipe file may contain; all keys are optional, since systems and sizes provide defaults."""
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
    """The options of a settings class that have no options of their own."""
    fields = settings.model_json_schema().get("properties", {})
    return {name: {key: value for key, value in field.items() if key != "title"} for name, field in fields.items()}


def mapping(options: dict[str, Any]) -> dict[str, Any]:
    """An object with these keys and no others."""
    return {"type": "object", "properties": options, "additionalProperties": False}


def one_of(choices: Mapping[str, type[Settings]]) -> dict[str, Any]:
    """A socket: any option of any choice, and once `type` is given, only that choice's."""
    options: dict[str, Any] = {}
    only: list[dict[str, Any]] = []
    for name, settings in choices.items():
        own = properties(settings)
        options |= own
        given = {"properties": {"type": {"const": name}}, "required": ["type"]}
        only.append({"if": given, "then": {"propertyNames": {"enum": list(own)}}})
    return {**mapping({**options, "type": {"enum": list(choices)}}), "allOf": only}
