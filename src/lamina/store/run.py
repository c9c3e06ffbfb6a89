"""The folder of a training run: recipe, metrics, checkpoints and model."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from lamina.base.files import StrPath, digest, locked, remove, write_file
from lamina.base.reading import read_json
from lamina.corpus.prepared import META, PreparedData
from lamina.errors import DataError, LaminaError, UsageError
from lamina.figures.axes import Axis
from lamina.figures.charts import Series, line_chart
from lamina.figures.figure import Figure
from lamina.figures.tables import html_facts
from lamina.model.seq2seq import Seq2Seq
from lamina.recipe.decode import SearchSettings
from lamina.recipe.loader import dump_recipe, read_resolved
from lamina.recipe.schema import Recipe
from lamina.store.checkpoints import Checkpoints
from lamina.store.history import read_records
from lamina.store.model_folder import write_model_folder
from lamina.text.pipeline import TextPipeline
from lamina.version import __version__

# Settings that may change when a run is resumed: those that do not affect a step. An update may be split differently
# into micro-batches; the trainer checks that `batch_tokens` × `accumulate` × ranks is unchanged.
CHANGEABLE = (
    "max_steps",
    "batch_tokens",
    "accumulate",
    "save_every",
    "validate_every",
    "log_every",
    "keep_last",
    "keep_best",
    "patience",
    "bleu_sentences",
)


class Run:
    """The folder of a training run; accepted wherever a path to a run is.

    Example:
        >>> run = lamina.Run("runs/first")
        >>> run
        Run('runs/first', surface-fusion, 24 of 24 steps, best step 24)
        >>> run.history[-1]["kind"], sorted(run.history[-1])[:3]
        ('valid', ['best', 'kind', 'loss'])
        >>> run.plot()
        Figure('Training of first: validation reaches ...', ... characters of SVG)
        >>> run.plot().save("loss.svg")
        PosixPath('loss.svg')
    """

    def __init__(self, folder: StrPath) -> None:
        self.folder = Path(folder)
        self.checkpoints = Checkpoints(self.folder / "checkpoints")
        self.metrics = self.folder / "metrics.jsonl"

    def __fspath__(self) -> str:
        return os.fspath(self.folder)

    @property
    def recipe(self) -> Recipe:
        """The resolved recipe."""
        return read_resolved(self.folder / "recipe.yaml")

    @property
    def history(self) -> list[dict[str, Any]]:
        """The records of training by step, as mappings with a `kind`.

        `train` has `loss`, `nll`, `lr` and `tokens_per_second`; `valid` has `loss`, `nll`, `perplexity`, `best` and,
        with SurfaceFusion's unnormalised loss, `normalised_nll`; `gradients` has the norm of each layer as `encoder`.

        Example:
            >>> [record["nll"] for record in lamina.Run("runs/first").history if record["kind"] == "valid"]
            [..., ...]
        """
        return read_records(self.folder).lines

    def plot(self) -> Figure:
        """Plot the cross-entropy, without label smoothing, on training and validation pairs over steps.

        The axis of a run of SurfaceFusion in `hard` mode says "unnormalised": its probabilities sum to at most 1, so
        the values are not comparable with those of other systems. The `normalised_nll` in `history` is.
        """
        records = read_records(self.folder)
        curves = {"training": records.curve("train", "nll"), "validation": records.curve("valid", "nll")}
        series = [Series(name, points) for name, points in curves.items() if points]
        if not series:
            raise DataError(f"{self.folder}: has no records yet.")
        points = [point for each in series for point in each.points]
        x = Axis.over("training step", [step for step, _ in points], zero=True)
        unnormalised = bool(records.curve("valid", "normalised_nll"))
        label = "unnormalised nats per token" if unnormalised else "cross-entropy (nats per token)"
        y = Axis.over(label, [value for _, value in points], log=True)
        lowest = min(value for _, value in series[-1].points)
        title = f"Training of {self.folder.name}: {series[-1].name} reaches {lowest:.3g}"
        return Figure(line_chart(series, x, y, title=title), title)

    def facts(self) -> list[tuple[str, str]]:
        """Names and values for `repr`."""
        recipe, best = self.recipe, self.checkpoints.pointer("best")
        parts = (recipe.model.encoder.type, recipe.model.bridge.type, recipe.model.head.type)
        step = max(self.checkpoints.steps(), default=0)
        found = [("system", recipe.system or " × ".join(parts))]
        found.append(("progress", f"{step:,} of {recipe.train.max_steps:,} steps"))
        return [*found, ("checkpoint", f"best step {best:,}")] if best is not None else found

    def __repr__(self) -> str:
        facts = self.facts() if (self.folder / "recipe.yaml").is_file() else [("steps", "not started")]
        return f"Run({str(self.folder)!r}, {', '.join(value for _, value in facts)})"

    def _repr_html_(self) -> str:
        return html_facts(str(self.folder), self.facts()) + self.plot().svg

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the run for this process; the lock of a dead process does not count.

        If an error occurs before anything is written to a new folder, the folder is removed.
        """
        existed, lock = self.folder.exists(), self.folder / "lock"
        try:
            str(self.folder.absolute()).encode("utf-8")
        except UnicodeEncodeError as error:
            raise UsageError(
                f"{self.folder}: the path is not UTF-8, which safetensors requires. Choose another."
            ) from error
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except FileExistsError as error:
            raise DataError(f"{self.folder}: is a file, not a folder. Choose another folder.") from error
        except OSError as error:
            raise DataError(f"{self.folder}: cannot be written ({error.strerror}).") from error
        with locked(lock, f"{self.folder}: another process is training this run."):
            try:
                yield
            except LaminaError:
                if not existed and list(self.folder.iterdir()) == [lock]:
                    remove(self.folder)
                raise

    def check(self, recipe: Recipe, data: PreparedData) -> None:
        """Raise an error if the folder is not a run, or is a run of another recipe or other data."""
        path, record = self.folder / "recipe.yaml", self.folder / "run.json"
        if record.exists() and path.exists():
            self._check_same(read_resolved(path), recipe, digest(data.folder / META))
        elif (self.folder / META).exists():
            raise UsageError(f"{self.folder}: contains prepared data. Choose another folder for the run.")
        elif path.exists() or self.metrics.exists() or (record.exists() and "data" not in read_json(record)):
            raise UsageError(f"{self.folder}: contains files, but is not a run. Choose another folder.")

    def begin(self, recipe: Recipe, data: PreparedData) -> None:
        """Write `run.json`, then the recipe: if it is missing, the run has not begun."""
        versions = {"lamina": __version__, "torch": torch.__version__, "python": sys.version.split()[0]}
        record = {"command": sys.argv, "versions": versions, "data": digest(data.folder / META)}
        write_file(self.folder / "run.json", json.dumps(record, indent=2) + "\n")
        write_file(self.folder / "recipe.yaml", dump_recipe(recipe))

    def _check_same(self, before: Recipe, now: Recipe, data: str) -> None:
        if read_json(self.folder / "run.json").get("data") != data:
            raise UsageError(f"{self.folder}: cannot be resumed with different data. Choose another folder.")
        old, new = flatten(before.model_dump(mode="json")), flatten(now.model_dump(mode="json"))
        changeable = {f"train.{name}" for name in CHANGEABLE} | {"name"}
        if now.train.schedule in ("linear", "cosine"):  # these schedules depend on it from the first step on
            changeable.remove("train.max_steps")
        for key in sorted(old.keys() | new.keys(), key=lambda key: (key != "system", key)):  # which explains the others
            if key not in changeable and not key.startswith("decode.") and old.get(key) != new.get(key):
                raise UsageError(
                    f"{self.folder}: cannot be resumed with a different {key}: it was {old.get(key)!r} and is now "
                    f"{new.get(key)!r}. Choose another folder, or give {self.folder / 'recipe.yaml'} as the recipe."
                )

    def write_model(self, model: Seq2Seq, text: TextPipeline, decode: SearchSettings, origin: str) -> None:
        """Write `model/`, a self-contained model folder."""
        write_model_folder(self.folder / "model", model, text, origin, decode)


def flatten(tree: Any, prefix: str = "") -> dict[str, Any]:
    """Flatten nested mappings to dotted keys."""
    if not isinstance(tree, dict):
        return {prefix[:-1]: tree}
    return {key: value for name, branch in tree.items() for key, value in flatten(branch, f"{prefix}{name}.").items()}
