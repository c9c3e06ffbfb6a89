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
    from lamina.errors import UsageError
    from lamina.store.loading import load_run

    if int8 and to == "huggingface":
        raise UsageError("--int8: `transformers` quantises models when it loads them; use --to onnx or ctranslate2.")
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
    print(f"{out}: {run} exported to {to}")
    say_next(*(("argospm", "install", out) if to == "argos" else ("cat", out / "README.md")))
