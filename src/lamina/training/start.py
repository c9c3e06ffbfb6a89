"""Start of a training run, shared by `lamina train` and `lamina.train`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from lamina.base.files import StrPath
from lamina.base.malloc import tune_malloc
from lamina.corpus.prepared import PreparedData
from lamina.recipe.automatic import describe_choice, system_name
from lamina.recipe.loader import Given, load_recipe_for
from lamina.recipe.schema import Recipe
from lamina.store.run import Run
from lamina.training.callbacks import Callback, CallbackReporter
from lamina.training.distributed import join_ranks
from lamina.training.reporters import NullReporter, Reporter, Reporters, RunReporter
from lamina.training.trainer import Trainer

Display = AbstractContextManager[Reporter]


@dataclass(frozen=True)
class Start:
    """Initialisation and device options of a training run."""

    init_from: StrPath | None = None
    grow_from: StrPath | None = None
    device: str = "auto"
    threads: int | None = None
    tensorboard: bool = False


def train_run(
    given: Given,
    data: StrPath,
    out: StrPath | None,
    overrides: Sequence[str | tuple[str, Any]],
    start: Start,
    display: Display | None = None,
    callbacks: Sequence[Callback] = (),
) -> Run:
    """Start or resume a run and train to the end; the first rank reports to display, log and callbacks."""
    tune_malloc()
    if start.threads is not None:
        torch.set_num_threads(start.threads)
    prepared = PreparedData(data)
    recipe = load_recipe_for(prepared, given, overrides)
    run = Run(out or Path("runs") / recipe.name)
    init_from, grow_from = (None if path is None else Path(path) for path in (start.init_from, start.grow_from))
    with join_ranks(start.device) as ranks, ExitStack() as stack:
        reporter: Reporter = NullReporter()
        if ranks.first:
            stack.enter_context(run.lock())
            run.check(recipe, prepared)
            reporters: list[Reporter] = [stack.enter_context(RunReporter(run, start.tensorboard))]
            reporters += [] if display is None else [stack.enter_context(display)]
            reporter = Reporters([*reporters, CallbackReporter(callbacks)])
        ranks.gather(None)  # wait until the first rank has created the folder
        trainer = Trainer(recipe, prepared, run, ranks, reporter, init_from, grow_from)
        if ranks.first:
            run.begin(recipe, prepared)
            for line in explain_choice(given, recipe, prepared, run.folder):
                reporter.say(line)
        trainer.fit()
    return run


def explain_choice(given: Given, recipe: Recipe, data: PreparedData, run: Path | None = None) -> list[str]:
    """Describe the automatic settings if the recipe was given as a system's name."""
    system = None if isinstance(given, Mapping) else system_name(given)
    if system is None:
        return []
    return [describe_choice(recipe, data.meta["splits"]["train"]["pairs"], run)]
