"""`lamina export`: a model for another engine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from lamina.cli.next_step import say_next
from lamina.cli.options import Checkpoint


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder, a checkpoint folder or a model folder.")],
    to: Annotated[Literal["ctranslate2"], typer.Option("--to", help="The engine.")],
    out: Annotated[Path, typer.Option("--out", help="The folder to write; must not exist yet.")],
    checkpoint: Checkpoint = "best",
) -> None:
    """Write a model in the format of another engine.

    A model that the format cannot express is refused with the reason.

    [bold]Example[/bold]

        lamina export runs/first --to ctranslate2 --out first-ctranslate2
    """
    from lamina.interop.ctranslate2 import export_ctranslate2
    from lamina.store.loading import load_run

    loaded = load_run(run, checkpoint)
    export_ctranslate2(loaded.model, loaded.text, out)
    print(f"{out}: {run} for {to}")
    say_next("cat", out / "README.md")
