"""The first rank chooses the checkpoint; the others do not read the run folder, which may be stale for them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from lamina.corpus.prepared import PreparedData
from lamina.recipe.loader import load_recipe_for
from lamina.store.run import Run
from lamina.training import objective
from lamina.training.distributed import Ranks
from lamina.training.reporters import NullReporter
from lamina.training.trainer import Trainer


@pytest.mark.parametrize("decided", [None, 20])
def test_ranks_resume_from_the_checkpoint_of_the_first(
    decided: int | None, data: Path, straight: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder has checkpoints up to step 24; the first rank sees none, or only those up to step 20."""
    run = Path(shutil.copytree(straight, tmp_path / "run"))
    monkeypatch.setattr(objective, "DistributedDataParallel", lambda model, **_: model)
    monkeypatch.setattr(Ranks, "gather", lambda self, value: [decided, value])
    monkeypatch.setattr("lamina.training.trainer.check_same_update", lambda *_: None)
    prepared = PreparedData(data / "data")
    recipe = load_recipe_for(prepared, data / "recipe.yaml", [])
    before = snapshot(run)
    trainer = Trainer(recipe, prepared, Run(run), Ranks(1, 2, torch.device("cpu")), NullReporter())
    trainer.resume()
    assert trainer.step == (decided or 0)
    trainer.save()
    assert snapshot(run) == before


def snapshot(folder: Path) -> dict[Path, Any]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
