"""A model folder: `config.json`, `model.safetensors`, its text pipeline and a card. No pickle.

`config.json` also holds the SHA-256 of every other file and a checksum of its own, which are checked when the folder is
loaded.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import safetensors
import torch
from pydantic import ValidationError
from safetensors.torch import load_file, save_file

from lamina.base.files import atomic_folder, digest
from lamina.base.problems import describe
from lamina.base.reading import read_sealed_json, sealed
from lamina.base.settings import Settings
from lamina.errors import DataError
from lamina.model.config import ModelConfig
from lamina.model.seq2seq import Seq2Seq
from lamina.recipe.decode import SearchSettings
from lamina.text.pipeline import TextPipeline
from lamina.version import __version__

FORMAT = 2  # 1 had other names of weights and no digests
CONFIG, WEIGHTS, CARD = "config.json", "model.safetensors", "README.md"

AnySettings = TypeVar("AnySettings", bound=Settings)


@dataclass(frozen=True)
class LoadedModel:
    """A model in evaluation mode, and its text pipeline."""

    model: Seq2Seq
    text: TextPipeline
    decode: SearchSettings  # how its recipe decodes


def write_model_folder(
    folder: Path,
    model: Seq2Seq,
    text: TextPipeline,
    origin: str,
    decode: SearchSettings | None = None,
    write_more: Callable[[Path], None] = lambda folder: None,
) -> None:
    """Replace a model folder in one step; `write_more` adds files of the caller's to it."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with atomic_folder(folder) as partial:
            weights = {name: weight.detach().cpu().contiguous() for name, weight in model.named_parameters()}
            save_file(weights, partial / WEIGHTS)  # a shared weight is written once
            text.save(partial)
            write_more(partial)
            digests = {path.name: digest(path) for path in sorted(partial.iterdir())}
            content = {
                "format": FORMAT,
                "model": model.config.model_dump(mode="json"),
                "decode": (decode or SearchSettings()).model_dump(mode="json"),
                "sha256": digests,
            }
            (partial / CONFIG).write_text(json.dumps(sealed(content), indent=2) + "\n", encoding="utf-8")
            (partial / CARD).write_bytes(model_card(model, origin).encode("utf-8", "surrogateescape"))
            (partial / WEIGHTS).chmod((partial / CONFIG).stat().st_mode)  # safetensors lets only the owner read
    except (OSError, RuntimeError, safetensors.SafetensorError) as error:  # libraries report a full disk differently
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise DataError(f"{folder}: cannot be written ({reason}). What was there before is unchanged.") from error


def model_card(model: Seq2Seq, origin: str) -> str:
    """What a reader of the folder should know."""
    config = model.config
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return (
        f"# {config.encoder.type} × {config.bridge.type} × {config.head.type}\n\n{origin}\n\n"
        f"- {parameters:,} parameters: d_model {config.d_model}, {config.encoder.layers} encoder and "
        f"{config.decoder.layers} decoder layers, {config.norm}-norm\n"
        f"- vocabularies of {config.source_vocab:,} and {config.target_vocab:,} entries\n"
        f"- written by Lamina {__version__}\n"
    )


def is_model_folder(folder: Path) -> bool:
    """Whether this is a model folder, complete or not."""
    return (folder / CONFIG).is_file()


def load_model_folder(folder: str | os.PathLike[str]) -> LoadedModel:
    """Load a model and its text pipeline; damaged files are refused."""
    folder = Path(folder)
    content = read_config_file(folder / CONFIG)
    config = parse_settings(ModelConfig, content.get("model"), folder / CONFIG)
    decode = parse_settings(SearchSettings, content.get("decode"), folder / CONFIG)
    damage = find_damage(folder)
    if damage is not None:
        raise DataError(f"{damage}.")
    text = TextPipeline.load(folder)
    for side, language, entries in (
        ("source", text.source, config.source_vocab),
        ("target", text.target, config.target_vocab),
    ):
        if len(language.vocabulary) != entries:
            raise DataError(
                f"{folder}: the {side} vocabulary must have {entries:,} entries, as the model has, "
                f"but has {len(language.vocabulary):,} instead."
            )
    model = Seq2Seq(config)
    assign_weights(model, read_weights(folder), str(folder / WEIGHTS))
    return LoadedModel(model.eval(), text, decode)


def read_weights(folder: Path) -> dict[str, torch.Tensor]:
    """The weights in a model folder, by name."""
    path = folder / WEIGHTS
    try:
        return load_file(path)
    except FileNotFoundError as error:
        raise DataError(f"{path}: not found.") from error
    except (OSError, safetensors.SafetensorError) as error:
        raise DataError(f"{path}: cannot be read as safetensors ({error}).") from error


def find_damage(folder: Path) -> str | None:
    """The first file of a model folder that is missing or differs from what was written, if any."""
    digests = read_config_file(folder / CONFIG)["sha256"]
    for name, expected in digests.items():
        path = folder / name
        try:
            if digest(path) != expected:
                return f"{path}: damaged (its SHA-256 differs from the one in {CONFIG})"
        except FileNotFoundError:
            return f"{path}: not found, but {CONFIG} lists it"
        except OSError as error:
            return f"{path}: cannot be read ({error.strerror})"
    return None


def assign_weights(model: Seq2Seq, weights: dict[str, torch.Tensor], where: str) -> None:
    """Copy weights into a model; every name and shape must match."""
    expected = dict(model.named_parameters())
    missing, unknown = sorted(expected.keys() - weights.keys()), sorted(weights.keys() - expected.keys())
    if missing or unknown:
        parts = [f"lacks {', '.join(missing[:3])}"] if missing else []
        parts += [f"has the unknown {', '.join(unknown[:3])}"] if unknown else []
        raise DataError(f"{where}: {' and '.join(parts)}; these weights belong to another model.")
    for name, parameter in expected.items():
        if parameter.shape != weights[name].shape:
            raise DataError(
                f"{where}: {name} must have shape {tuple(parameter.shape)}, "
                f"but has {tuple(weights[name].shape)} instead."
            )
        with torch.no_grad():
            parameter.copy_(weights[name])


def read_config_file(path: Path) -> dict[str, Any]:
    """The content of `config.json`, of a format that this version reads."""
    if not path.exists():
        raise DataError(f"{path}: not found; {path.parent} is not a model folder.")
    content = read_sealed_json(path)
    found = content.get("format")
    if found != FORMAT:
        if (path.parent / "model.bin").is_file():
            raise DataError(f"{path.parent}: is a CTranslate2 model; open it with ctranslate2.Translator.")
        if isinstance(content, dict) and "model_type" in content:
            kind = content["model_type"]
            hint = "; `lamina import-marian` turns it into a model folder" if kind == "marian" else ""
            raise DataError(f"{path.parent}: is a model for Hugging Face's transformers ({kind}){hint}.")
        older = " It was written before Lamina 0.2; train or import the model again." if found == 1 else ""
        raise DataError(f"{path}: format must be {FORMAT}, but is {found} instead.{older}")
    digests = content.get("sha256")
    if not isinstance(digests, dict) or any(Path(name).name != name for name in digests):
        raise DataError(f"{path}: `sha256` must map the names of the folder's files to their digests.")
    return content


def parse_settings(kind: type[AnySettings], content: Any, path: Path) -> AnySettings:
    """A part of a model's configuration; every problem at once."""
    try:
        settings = kind.model_validate_json(json.dumps(content))
        problems = settings.problems() if isinstance(settings, ModelConfig) else []
    except ValidationError as error:
        problems = describe(error, kind, content)
    if problems:
        raise DataError("\n".join(f"{path}: {problem}" for problem in problems))
    return settings
