"""`lamina export`: a model for another engine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from lamina.cli.next_step import say_next
from lamina.cli.options import Checkpoint


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder, a checkpoint folder or a model folder.")],
    to: Annotated[Literal["ctranslate2", "onnx", "huggingface", "argos"], typer.Option("--to", help="The format.")],
    out: Annotated[Path, typer.Option("--out", help="The folder (argos: the file) to write; must not exist.")],
    checkpoint: Checkpoint = "best",
    int8: Annotated[bool, typer.Option("--int8", help="Write the weights of matrix products in 8 bits.")] = False,
) -> None:
    """Write a model in the format of another engine.

    ONNX holds every system. A model that a format cannot express is refused with the reason.

    [bold]Examples[/bold]

        lamina export runs/first --to onnx --out first-onnx

        lamina export runs/first --to huggingface --out first-huggingface

        lamina export runs/first --to ctranslate2 --out first-ctranslate2

        lamina export runs/first --to argos --out first.argosmodel
    """
    from lamina.errors import UsageError
    from lamina.store.loading import load_run

    if int8 and to == "huggingface":
        raise UsageError("--int8: transformers quantises when it loads; export 8 bits with --to onnx or ctranslate2.")
    loaded = load_run(run, checkpoint)
    if to == "onnx":
        from lamina.interop.onnx import export_onnx

        export_onnx(loaded.model, loaded.text, loaded.decode, out, int8)
    elif to == "huggingface":
        from lamina.interop.huggingface import export_huggingface

        export_huggingface(loaded.model, loaded.text, loaded.decode, out)
    elif to == "argos":
        from lamina.interop.argos import export_argos

        export_argos(loaded.model, loaded.text, out, int8)
    else:
        from lamina.interop.ctranslate2 import export_ctranslate2

        export_ctranslate2(loaded.model, loaded.text, out, int8)
    print(f"{out}: {run} for {to}")
    say_next(*(("argospm", "install", out) if to == "argos" else ("cat", out / "README.md")))
