"""`lamina train`: train a recipe; rerun the same command to resume."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lamina.cli.next_step import say_next
from lamina.cli.options import Device, Threads


def train(
    recipe: Annotated[
        Path, typer.Argument(metavar="RECIPE", help="Recipe file, or name of a system or shipped recipe.")
    ],
    data: Annotated[Path, typer.Option("--data", help="Data folder written by `lamina prepare`.")] = Path("data"),
    out: Annotated[Path | None, typer.Option("--out", help="Run folder to write.", show_default="runs/NAME")] = None,
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
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Print the model, batches, and memory and time estimates, without training."),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only errors.")] = False,
) -> None:
    """Train a system from a recipe or by name. Stop at any time; rerun the same command to resume.

    [bold]Examples[/bold]

        lamina train surface-fusion --data data --out runs/first

        lamina train recipe.yaml --data data --out runs/first --set train.max_steps=20000

        lamina train multi30k-en-de-msc --data data

        torchrun --nproc-per-node 4 -m lamina train recipe.yaml --data data --out runs/first
    """
    from lamina.cli.terminal_reporter import TerminalReporter
    from lamina.training.start import Start, train_run

    start = Start(init_from, grow_from, device, threads, tensorboard)
    if dry_run:
        from lamina.bench.dry_run import describe_plan

        for line in describe_plan(recipe, data, overrides or [], start):
            print(line)
        return
    run = train_run(recipe, data, out, overrides or [], start, None if quiet else TerminalReporter())
    say_next("lamina", "translate", run.folder, quiet=quiet)
