"""A run's checkpoints: each is a model folder with the training state added."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lamina.base.files import PARTIAL, remove, write_file
from lamina.errors import DataError, UsageError
from lamina.recipe.decode import SearchSettings
from lamina.store.model_files import CONFIG, find_damage, read_config_file
from lamina.text.pipeline import TextPipeline

if TYPE_CHECKING:
    from lamina.model.seq2seq import Seq2Seq

STATE = "training_state.pt"
NAME = re.compile(r"step_(\d+)")


class Checkpoints:
    """The checkpoints of a run, by step."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, step: int) -> Path:
        """The folder of a step's checkpoint."""
        return self.folder / f"step_{step:06}"

    def steps(self) -> list[int]:
        """Steps that have a checkpoint, in order."""
        names = [path.name for path in self.folder.iterdir()] if self.folder.is_dir() else []
        return sorted(int(found[1]) for found in map(NAME.fullmatch, names) if found)

    def save(
        self, step: int, model: Seq2Seq, text: TextPipeline, decode: SearchSettings, state: dict[str, Any]
    ) -> None:
        """Write a checkpoint and record it as the last."""
        import torch

        from lamina.store.model_folder import write_model_folder

        def write_state(folder: Path) -> None:
            torch.save(state, folder / STATE)

        write_model_folder(self.path(step), model, text, f"Checkpoint of step {step}.", decode, write_state)
        self.set_pointer("last", step)

    def set_pointer(self, name: str, step: int) -> None:
        """Record a step in `last.txt` or `best.txt`."""
        write_file(self.folder / f"{name}.txt", f"{self.path(step).name}\n")

    def pointer(self, name: str) -> int | None:
        """The step in `last.txt` or `best.txt`, if its checkpoint exists."""
        path = self.folder / f"{name}.txt"
        try:
            found = NAME.fullmatch(path.read_text(encoding="utf-8").strip())
        except (FileNotFoundError, UnicodeDecodeError):
            return None
        return int(found[1]) if found and int(found[1]) in self.steps() else None

    def find(self, wanted: str | int) -> int:
        """Resolve `last`, `best` or a number to a step."""
        steps = self.steps()
        if wanted in ("last", "best"):
            step = self.pointer(str(wanted))
            step = steps[-1] if step is None and steps else step
        elif str(wanted).isdecimal():
            step = int(wanted)
        else:
            raise UsageError(f"The checkpoint must be best, last or a step, but is `{wanted}` instead.")
        if step not in steps:
            known = f"available: {', '.join(map(str, steps))}" if steps else "the run has none"
            raise UsageError(f"{self.folder.parent}: no checkpoint `{wanted}`; {known}.")
        return step

    def newest_first(self) -> Iterator[tuple[int, str | None]]:
        """Steps from the newest to the oldest, each with the damage of its checkpoint, if any."""
        for step in reversed(self.steps()):
            yield step, self.damage(step)

    def damage(self, step: int) -> str | None:
        """A description of a checkpoint's damage, if any."""
        try:
            return find_damage(self.path(step), read_config_file(self.path(step) / CONFIG))
        except DataError as error:
            return str(error).rstrip(".")

    def load_weights(self, step: int, model: Seq2Seq) -> None:
        """Copy a checkpoint's weights into a model."""
        from lamina.store.model_folder import assign_weights, read_weights

        assign_weights(model, read_weights(self.path(step)), str(self.path(step)))

    def load_state(self, step: int) -> dict[str, Any]:
        """Load a checkpoint's training state without executing pickled code."""
        import torch

        path = self.path(step) / STATE
        try:
            state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:  # a damaged file can fail anywhere in torch's reader
            raise DataError(f"{path}: cannot be read ({type(error).__name__}).") from error
        return state

    def prune(self, keep_last: int, keep: set[int]) -> None:
        """Remove all but the `keep_last` newest checkpoints and those in `keep`."""
        for step in self.steps()[:-keep_last]:
            if step not in keep:
                remove(self.path(step))

    def clear_partial(self) -> None:
        """Remove the remains of interrupted writes."""
        for path in self.folder.glob(f"*{PARTIAL}"):
            remove(path)
