"""`lamina export`: export a model for another engine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from lamina.cli.next_step import say_next
from lamina.cli.options import Checkpoint


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run, checkpoint or model folder.")],
    to: Annotated[Literal["ctranslate2", "onnx", "huggingface", "argos"], typer.Option("--to", help="Format.")],
    out: Annotated[Path, typer.Option("--out", help="Output folder (argos: file); must not exist yet.")],
    checkpoint: Checkpoint = "best",
    int8: Annotated[bool, typer.Option("--int8", help="Store the weights of matrix products in 8 bits.")] = False,
) -> None:
    """Export a model for another engine.

    ONNX supports every system. If a format does not support a part of a model, the error names the part and a format
    that does.

    [bold]Examples[/bold]

        lamina export runs/first --to onnx --out first-onnx

        lamina export runs/first --to huggingface --out first-huggingface

        lamina export runs/first --to ctranslate2 --out first-ctranslate2

        lamina export runs/first --to argos --out first.argosmodel
    """
    from lamina.interop.export import export_run

    export_run(run, to, out, checkpoint, int8)
    print(f"{out}: {run} exported to {to}")
    say_next(*(("argospm", "install", out) if to == "argos" else ("cat", out / "README.md")))
