"""Checkpoints: written under a temporary name, flushed, renamed; verified by digest when loaded."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from lamina.errors import DataError
from lamina.files import PARTIAL, digest, flush, write_text
from lamina.model.folder import WEIGHTS, assign_weights
from lamina.model.seq2seq import Seq2Seq

STATE, DIGESTS = "training_state.pt", "digests.json"


class Checkpoints:
    """The checkpoints of a run, by step."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, step: int) -> Path:
        """Where the checkpoint of a step is."""
        return self.folder / f"step_{step:06}"

    def steps(self) -> list[int]:
        """Steps that have a checkpoint, in order."""
        found = self.folder.glob("step_*") if self.folder.is_dir() else iter(())
        return sorted(int(path.name[5:]) for path in found if not path.name.endswith(PARTIAL))

    def save(self, step: int, model: Seq2Seq, state: dict[str, Any]) -> None:
        """Write a checkpoint that is complete or not there, and name it the last."""
        final = self.path(step)
        partial = final.with_name(final.name + PARTIAL)
        shutil.rmtree(partial, ignore_errors=True)
        try:
            self._write(partial, model, state)
        except (OSError, RuntimeError, SafetensorError) as error:  # each library has its own words for a full disk
            shutil.rmtree(partial, ignore_errors=True)
            raise DataError(
                f"{final}: cannot be written ({str(error).splitlines()[0]}). Nothing before it is lost; make room, "
                "and the same command goes on."
            ) from error
        shutil.rmtree(final, ignore_errors=True)
        partial.rename(final)
        flush(self.folder)
        self.point("last", step)

    def _write(self, folder: Path, model: Seq2Seq, state: dict[str, Any]) -> None:
        folder.mkdir(parents=True)
        weights = {name: weight.detach().cpu().contiguous() for name, weight in model.named_parameters()}
        save_file(weights, folder / WEIGHTS)
        torch.save(state, folder / STATE)
        digests = {name: digest(folder / name) for name in (WEIGHTS, STATE)}
        (folder / DIGESTS).write_text(json.dumps(digests), encoding="utf-8")
        for path in (*folder.iterdir(), folder):
            flush(path)

    def point(self, name: str, step: int) -> None:
        """Let `last.txt` or `best.txt` name a checkpoint."""
        write_text(self.folder / f"{name}.txt", f"{self.path(step).name}\n")

    def pointed(self, name: str) -> int | None:
        """The step that `last.txt` or `best.txt` names, if its checkpoint is there."""
        path = self.folder / f"{name}.txt"
        step = int(path.read_text(encoding="utf-8").strip()[5:]) if path.exists() else None
        return step if step in self.steps() else None

    def latest(self) -> Iterator[tuple[int, str | None]]:
        """Steps from the newest down, each with what is wrong with it, if anything."""
        for step in reversed(self.steps()):
            yield step, self.damage(step)

    def damage(self, step: int) -> str | None:
        """What is wrong with a checkpoint."""
        folder = self.path(step)
        try:
            digests = json.loads((folder / DIGESTS).read_text(encoding="utf-8"))
            for name, expected in digests.items():
                if digest(folder / name) != expected:
                    return f"{folder / name} is damaged"
        except (OSError, ValueError) as error:
            return f"{folder} is incomplete ({error})"
        return None

    def load_weights(self, step: int, model: Seq2Seq) -> None:
        """Copy a checkpoint's weights into a model."""
        path = self.path(step) / WEIGHTS
        assign_weights(model, load_file(path), str(path))

    def load_state(self, step: int) -> dict[str, Any]:
        """A checkpoint's training state; nothing pickled in it is executed."""
        path = self.path(step) / STATE
        try:
            state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:  # a damaged file can fail anywhere in torch's reader
            raise DataError(f"{path}: cannot be read ({type(error).__name__}).") from error
        return state

    def prune(self, keep_last: int, keep: set[int]) -> None:
        """Remove all but the newest checkpoints and those to keep."""
        for step in self.steps()[:-keep_last]:
            if step not in keep:
                shutil.rmtree(self.path(step), ignore_errors=True)

    def clear_partial(self) -> None:
        """Remove what an interrupted write has left."""
        for path in self.folder.glob(f"*{PARTIAL}"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
