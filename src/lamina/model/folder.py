"""A model as a folder: `config.json`, `model.safetensors`, its vocabularies and a card. No pickle."""

from __future__ import annotations

import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory

import safetensors
import torch
from pydantic import ValidationError
from safetensors.torch import load_file, save_file

from lamina import __version__
from lamina.errors import DataError, UsageError
from lamina.model.config import ModelConfig
from lamina.model.problems import describe
from lamina.model.seq2seq import Seq2Seq
from lamina.text.vocabulary import Vocabularies, Vocabulary

FORMAT = 1
CONFIG, WEIGHTS, CARD = "config.json", "model.safetensors", "README.md"
SOURCE_VOCABULARY, TARGET_VOCABULARY = "vocabulary.source.txt", "vocabulary.target.txt"


def write_folder(model: Seq2Seq, vocabularies: Vocabularies, folder: Path, origin: str) -> None:
    """Write a whole model folder under a temporary name, then rename it: it is complete or not there."""
    if folder.exists():
        raise UsageError(f"{folder}: exists already; choose another folder or remove it.")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as scratch:
            unfinished = Path(scratch) / "model"
            save_model(model, unfinished)
            vocabularies.source.save(unfinished / SOURCE_VOCABULARY)
            vocabularies.target.save(unfinished / TARGET_VOCABULARY)
            (unfinished / CARD).write_text(model_card(model, origin), encoding="utf-8")
            unfinished.rename(folder)
    except OSError as error:
        raise DataError(f"{folder}: cannot be written ({error.strerror}).") from error


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


def save_model(model: Seq2Seq, folder: Path) -> None:
    """Write configuration and weights; a shared weight is written once."""
    folder.mkdir(parents=True, exist_ok=True)
    content = {"format": FORMAT, "model": model.config.model_dump(mode="json")}
    (folder / CONFIG).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    weights = {name: weight.detach().contiguous() for name, weight in model.named_parameters()}
    save_file(weights, folder / WEIGHTS)
    (folder / WEIGHTS).chmod((folder / CONFIG).stat().st_mode)  # safetensors makes files that only their owner reads


def find_model(place: str | os.PathLike[str]) -> Path:
    """The model folder that is meant by a run folder or by itself."""
    path = Path(place)
    for folder in (path, path / "model"):
        if (folder / CONFIG).is_file():
            return folder
    raise DataError(f"{path}: is neither a run with a model nor a model folder.")


def load_model(folder: str | os.PathLike[str]) -> Seq2Seq:
    """Rebuild a saved model, in evaluation mode."""
    folder = Path(folder)
    config = read_config(folder / CONFIG)
    model = Seq2Seq(config)
    try:
        weights = load_file(folder / WEIGHTS)
    except (OSError, safetensors.SafetensorError) as error:
        raise DataError(f"{folder / WEIGHTS}: cannot be read as safetensors ({error}).") from error
    assign_weights(model, weights, str(folder / WEIGHTS))
    return model.eval()


def assign_weights(model: Seq2Seq, weights: dict[str, torch.Tensor], where: str) -> None:
    """Copy weights into a model; every name and shape must match."""
    expected = dict(model.named_parameters())
    missing, unknown = sorted(expected.keys() - weights.keys()), sorted(weights.keys() - expected.keys())
    if missing or unknown:
        parts = [f"lacks {', '.join(missing[:3])}"] if missing else []
        parts += [f"has the unknown {', '.join(unknown[:3])}"] if unknown else []
        raise DataError(f"{where}: {' and '.join(parts)}; these weights are of another model.")
    for name, parameter in expected.items():
        if parameter.shape != weights[name].shape:
            raise DataError(
                f"{where}: {name} must have shape {tuple(parameter.shape)}, "
                f"but has {tuple(weights[name].shape)} instead."
            )
        with torch.no_grad():
            parameter.copy_(weights[name])


def read_config(path: Path) -> ModelConfig:
    """The configuration in a model folder."""
    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise DataError(f"{path}: not found; {path.parent} is not a model folder.") from error
    except ValueError as error:
        raise DataError(f"{path}: not JSON ({error}).") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        if (path.parent / "model.bin").is_file():
            raise DataError(f"{path.parent}: is a CTranslate2 model; open it with ctranslate2.Translator.")
        found = content.get("format") if isinstance(content, dict) else None
        raise DataError(f"{path}: format must be {FORMAT}, but is {found} instead; another Lamina wrote it.")
    try:
        config = ModelConfig.model_validate_json(json.dumps(content.get("model")))
        problems = config.problems()
    except ValidationError as error:
        problems = describe(error, ModelConfig, content.get("model"))
    if problems:
        raise DataError("\n".join(f"{path}: {problem}" for problem in problems))
    return config


def load_vocabularies(folder: Path) -> Vocabularies:
    """The vocabularies in a model folder."""
    return Vocabularies(Vocabulary.load(folder / SOURCE_VOCABULARY), Vocabulary.load(folder / TARGET_VOCABULARY))
