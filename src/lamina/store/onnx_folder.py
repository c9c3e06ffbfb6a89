"""Folders written by `lamina export --to onnx`: two graphs, the text pipeline, and a description."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from lamina.base.files import digest
from lamina.base.problems import describe_errors
from lamina.base.reading import read_sealed_json
from lamina.base.settings import Settings
from lamina.errors import DataError
from lamina.recipe.decode import SearchSettings

FORMAT = 1
DESCRIPTION, ENCODER, DECODER, SCRIPT = "onnx.json", "encoder.onnx", "decoder.onnx", "run.py"


class CacheTensor(Settings):
    """A cache input of the decoder graph, which the output `present.NAME` replaces at the next step."""

    name: str
    shape: tuple[int | Literal["rows", "past"], ...]  # `past` is 0 before the first step


class OnnxDescription(Settings):
    """What a program needs to run the two graphs."""

    format: Literal[1]
    opset: int
    quantised: bool
    start_id: int
    target_vocab: int
    memories: tuple[str, ...]  # outputs of the encoder graph that are inputs of the decoder graph
    caches: tuple[CacheTensor, ...]
    decode: SearchSettings
    model: dict[str, Any]  # the model's configuration, for information
    sha256: dict[str, str]


def is_onnx_folder(folder: Path) -> bool:
    """Whether this is an ONNX export, complete or not."""
    return (folder / DESCRIPTION).is_file()


def read_description(folder: Path) -> OnnxDescription:
    """Read the description of an export and verify its files."""
    path = folder / DESCRIPTION
    content = read_sealed_json(path)
    try:
        description = OnnxDescription.model_validate_json(json.dumps(content))
    except ValidationError as error:
        problem = describe_errors(error, OnnxDescription, content)[0]
        raise DataError(f"{path}: {problem} Export the model again.") from error
    for name, expected in description.sha256.items():
        file = folder / name
        if Path(name).name != name or not file.is_file():
            raise DataError(f"{file}: not found, but {DESCRIPTION} lists it.")
        if digest(file) != expected:
            raise DataError(f"{file}: damaged (SHA-256 does not match {DESCRIPTION}).")
    return description
