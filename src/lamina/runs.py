"""What a user means by RUN: a run folder, one of its checkpoints, or a model folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import safetensors
from safetensors.torch import load_file

from lamina.errors import DataError, UsageError
from lamina.model.folder import SOURCE_VOCABULARY, TARGET_VOCABULARY, WEIGHTS, assign_weights, find_model, load_model
from lamina.model.seq2seq import Seq2Seq
from lamina.text.pipeline import DESCRIPTION, TextPipeline, make_pipeline
from lamina.training.checkpoint import Checkpoints


@dataclass(frozen=True)
class Loaded:
    """A model and its text."""

    model: Seq2Seq
    text: TextPipeline


def load_run(place: Path, checkpoint: str | int = "best") -> Loaded:
    """The model meant by a folder. Of a run it is the best by validation, `last`, or that of a step."""
    if place.parent.name == "checkpoints" and (place / WEIGHTS).is_file():
        return _load(find_model(place.parent.parent), place)
    folder = find_model(place)
    if checkpoint == "best":
        return _load(folder, None)
    checkpoints = Checkpoints(place / "checkpoints")
    there = checkpoints.steps()
    if checkpoint == "last":
        step = there[-1] if there else None
    else:
        try:
            step = int(checkpoint)
        except ValueError:
            raise UsageError(f"--checkpoint must be best, last or a step, but is `{checkpoint}` instead.") from None
    if step not in there:
        known = ", ".join(map(str, there)) or "none"
        raise UsageError(f"{place}: there is no checkpoint `{checkpoint}`; there are {known}.")
    return _load(folder, checkpoints.path(step))


def _load(folder: Path, checkpoint: Path | None) -> Loaded:
    model = load_model(folder)
    if checkpoint is not None:
        path = checkpoint / WEIGHTS
        try:
            assign_weights(model, load_file(path), str(path))
        except (OSError, safetensors.SafetensorError) as error:
            raise DataError(f"{path}: cannot be read as safetensors ({error}).") from error
    return Loaded(model, load_text(folder))


def load_text(folder: Path) -> TextPipeline:
    """A model's text pipeline; an import has vocabularies only, and reads text that is cut into subwords already."""
    if (folder / DESCRIPTION).is_file():
        return TextPipeline.load(folder)
    try:
        files = {name: (folder / name).read_bytes() for name in (SOURCE_VOCABULARY, TARGET_VOCABULARY)}
    except OSError as error:
        raise DataError(f"{folder}: has neither a text pipeline nor vocabularies.") from error
    return make_pipeline("none", ("source", "target"), False, files)
