"""Model folders: `config.json`, `model.safetensors`, a text pipeline and a model card, without pickle.

`config.json` also contains the SHA-256 of the files that a model is loaded from, and its own checksum; all are verified
on loading.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import safetensors
import torch
from safetensors.torch import load_file, save_file

from lamina.base.files import atomic_folder, digest
from lamina.base.reading import sealed
from lamina.errors import DataError
from lamina.model.config import ModelConfig
from lamina.model.seq2seq import Seq2Seq
from lamina.recipe.decode import SearchSettings
from lamina.store.model_files import CARD, CONFIG, FORMAT, WEIGHTS, ModelFiles, open_model_folder, parse_settings
from lamina.text.pipeline import TextPipeline
from lamina.version import __version__

SAME_SETTINGS = "use the `model` settings that these weights were trained with"


@dataclass(frozen=True)
class LoadedModel:
    """A model in evaluation mode, and its text pipeline."""

    model: Seq2Seq
    text: TextPipeline
    decode: SearchSettings  # of its recipe


def write_model_folder(
    folder: Path,
    model: Seq2Seq,
    text: TextPipeline,
    origin: str,
    decode: SearchSettings | None = None,
    write_more: Callable[[Path], None] = lambda folder: None,
) -> None:
    """Write a model folder atomically; `write_more` adds the caller's files."""
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
            (partial / WEIGHTS).chmod((partial / CONFIG).stat().st_mode)  # else readable by the owner only
    except (OSError, RuntimeError, safetensors.SafetensorError) as error:  # libraries report a full disk differently
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise DataError(f"{folder}: cannot be written ({reason}). The previous content is unchanged.") from error


def model_card(model: Seq2Seq, origin: str) -> str:
    """The model card of a folder."""
    config = model.config
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return (
        f"# {config.encoder.type} × {config.bridge.type} × {config.head.type}\n\n{origin}\n\n"
        f"- {parameters:,} parameters: d_model {config.d_model}, {config.depth()}, {config.norm}-norm\n"
        f"- vocabularies of {config.source_vocab:,} and {config.target_vocab:,} entries\n"
        f"- written by Lamina {__version__}\n"
    )


def load_model_folder(folder: str | os.PathLike[str]) -> LoadedModel:
    """Load a model and its text pipeline, and verify the files."""
    return load_model(open_model_folder(Path(folder)))


def load_model(files: ModelFiles) -> LoadedModel:
    """Load the model of a verified folder."""
    folder = files.folder
    config = parse_settings(ModelConfig, files.config.get("model"), folder / CONFIG)
    problems = config.problems()
    if problems:
        raise DataError("\n".join(f"{folder / CONFIG}: {problem}" for problem in problems))
    files.check_vocabularies(config.source_vocab, config.target_vocab)
    model = Seq2Seq(config)
    assign_weights(model, read_weights(folder), str(folder / WEIGHTS))
    return LoadedModel(model.eval(), files.text, files.decode)


def read_weights(folder: Path) -> dict[str, torch.Tensor]:
    """Read the weights in a model folder, by name."""
    path = folder / WEIGHTS
    try:
        path.open("rb").close()  # safetensors calls every file that it cannot open missing
        return load_file(path)
    except FileNotFoundError as error:
        raise DataError(f"{path}: not found.") from error
    except (OSError, safetensors.SafetensorError) as error:
        raise DataError(f"{path}: cannot be read as safetensors ({error}).") from error


def shorten(names: list[str]) -> str:
    """The first three names."""
    return f"{', '.join(names[:3])}{', …' if len(names) > 3 else ''}"


def assign_weights(model: Seq2Seq, weights: dict[str, torch.Tensor], where: str) -> None:
    """Copy weights into a model; every name and shape must match."""
    expected = dict(model.named_parameters())
    missing, unknown = sorted(expected.keys() - weights.keys()), sorted(weights.keys() - expected.keys())
    if missing or unknown:
        parts = [f"lacks {shorten(missing)}"] if missing else []
        parts += [f"has {shorten(unknown)}, which the model does not have"] if unknown else []
        raise DataError(f"{where}: {' and '.join(parts)}; {SAME_SETTINGS}.")
    for name, parameter in expected.items():
        if parameter.shape != weights[name].shape:
            raise DataError(
                f"{where}: {name} must have shape {tuple(parameter.shape)}, "
                f"but has {tuple(weights[name].shape)} instead; {SAME_SETTINGS}."
            )
        with torch.no_grad():
            parameter.copy_(weights[name])
