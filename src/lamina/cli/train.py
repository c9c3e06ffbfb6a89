"""`lamina train`: train a recipe; the same command again resumes."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from lamina.cli.next_step import say_next
from lamina.cli.options import Device, Threads


def train(
    recipe: Annotated[
        Path, typer.Argument(metavar="RECIPE", help="A recipe file (YAML), or the name of a shipped recipe.")
    ],
    data: Annotated[Path, typer.Option("--data", help="A data folder written by `lamina prepare`.")] = Path("data"),
    out: Annotated[Path | None, typer.Option("--out", help="The run folder.", show_default="runs/NAME")] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY.PATH=VALUE", help="Override a recipe value; repeatable.")
    ] = None,
    init_from: Annotated[
        Path | None, typer.Option("--init-from", help="Start from the weights of this run or model (fine-tuning).")
    ] = None,
    grow_from: Annotated[
        Path | None, typer.Option("--grow-from", help="Build a deeper model around this run or model (depth growing).")
    ] = None,
    device: Device = "auto",
    threads: Threads = None,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Also write RUN/tensorboard (extra `track`).")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only errors.")] = False,
) -> None:
    """Train any system from a recipe. Stop it at any time; rerun the same command to resume.

    [bold]Examples[/bold]

        lamina train recipe.yaml --data data --out runs/first

        lamina train recipe.yaml --data data --out runs/first --set train.max_steps=20000

        lamina train multi30k-en-de-msc --data data

        torchrun --nproc-per-node 4 -m lamina train recipe.yaml --data data --out runs/first
    """
    import torch

    from lamina.base.malloc import tune_malloc
    from lamina.cli.terminal_reporter import open_reporter
    from lamina.corpus.prepared import PreparedData
    from lamina.recipe.loader import load_recipe_for
    from lamina.store.run import Run
    from lamina.training.distributed import join_ranks
    from lamina.training.reporters import NullReporter, Reporter
    from lamina.training.trainer import Trainer

    tune_malloc()
    if threads is not None:
        torch.set_num_threads(threads)
    prepared = PreparedData(data)
    chosen = load_recipe_for(prepared, recipe, overrides or [])
    run = Run(out or Path("runs") / chosen.name)
    with join_ranks(device) as ranks, ExitStack() as stack:
        reporter: Reporter = NullReporter()
        if ranks.first:
            stack.enter_context(run.lock())
            run.check(chosen, prepared)
            reporter = stack.enter_context(open_reporter(run, quiet, tensorboard))
        ranks.gather(None)  # wait until the first rank has made the folder
        trainer = Trainer(chosen, prepared, run, ranks, reporter, init_from, grow_from)
        if ranks.first:
            run.begin(chosen, prepared)
        trainer.fit()
    say_next("lamina", "translate", run.folder, "--input", "FILE", quiet=quiet)
