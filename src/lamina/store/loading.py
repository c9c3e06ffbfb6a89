"""Resolve RUN: a run folder, one of its checkpoints, or a model folder."""

from __future__ import annotations

import os
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from lamina.errors import DataError, UsageError
from lamina.store.checkpoints import Checkpoints
from lamina.store.hub import REPOSITORY, SCHEME, fetch
from lamina.store.model_files import is_model_folder
from lamina.store.onnx_folder import is_onnx_folder

if TYPE_CHECKING:
    from lamina.store.model_folder import LoadedModel


def load_run(place: str | os.PathLike[str], checkpoint: str | int = "best") -> LoadedModel:
    """Load the model of a run (`best` by validation, `last`, or a step), of a checkpoint or of a model folder."""
    from lamina.store.model_folder import load_model_folder

    return load_model_folder(find_model_folder(place, checkpoint))


def find_model_folder(place: str | os.PathLike[str], checkpoint: str | int = "best") -> Path:
    """Find the model folder of RUN; a run without `model/` is opened from its checkpoints."""
    path = fetch(place)
    if is_model_folder(path):
        if checkpoint != "best":
            raise UsageError(f"{path}: is a model folder, which has no other checkpoints; omit the checkpoint.")
        return path
    checkpoints = Checkpoints(path / "checkpoints")
    if checkpoint == "best" and is_model_folder(path / "model"):
        return path / "model"
    if not checkpoints.steps():
        if not path.exists():
            raise DataError(f"{path}: not found.{similar(path)}")
        if is_onnx_folder(path):
            raise DataError(f"{path}: is an ONNX export, which can only translate; use the run that was exported.")
        if not is_model_folder(path / "model"):
            raise DataError(f"{path}: is neither a run with a model nor a model folder.")
    return checkpoints.path(checkpoints.find(checkpoint))


def similar(path: Path) -> str:
    """A hint for a path that does not exist: a run or model with a similar name, or a model on the Hub."""
    if path.parent.is_dir() and os.access(path.parent, os.R_OK):
        folders = [each for each in path.parent.iterdir() if is_model_folder(each) or (each / "recipe.yaml").is_file()]
        matches = get_close_matches(path.name, [each.name for each in folders], n=1)
        return f" Did you mean `{path.parent / matches[0]}`?" if matches else ""
    return f" A model on the Hugging Face Hub is {SCHEME}{path}." if REPOSITORY.fullmatch(str(path)) else ""
