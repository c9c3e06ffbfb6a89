"""What a user means by RUN: a run folder, one of its checkpoints, or a model folder."""

from __future__ import annotations

import os
from pathlib import Path

from lamina.errors import DataError
from lamina.store.checkpoints import Checkpoints
from lamina.store.model_folder import LoadedModel, is_model_folder, load_model_folder


def load_run(place: str | os.PathLike[str], checkpoint: str | int = "best") -> LoadedModel:
    """The model of a run (the best by validation, `last`, or a step), of a checkpoint or of a model folder."""
    return load_model_folder(find_model_folder(place, checkpoint))


def find_model_folder(place: str | os.PathLike[str], checkpoint: str | int = "best") -> Path:
    """The model folder of RUN; a run whose `model/` is missing is opened from its checkpoints."""
    path = Path(place)
    if is_model_folder(path):
        return path
    checkpoints = Checkpoints(path / "checkpoints")
    if checkpoint == "best" and is_model_folder(path / "model"):
        return path / "model"
    if not checkpoints.steps():
        if not path.exists():
            raise DataError(f"{path}: not found.")
        if not is_model_folder(path / "model"):
            raise DataError(f"{path}: is neither a run with a model nor a model folder.")
    return checkpoints.path(checkpoints.find(checkpoint))
