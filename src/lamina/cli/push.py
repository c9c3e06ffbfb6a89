"""`lamina push`: upload a model to the Hugging Face Hub."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lamina.cli.next_step import say_next


def push(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Run, model or export folder.")],
    repository: Annotated[str, typer.Argument(metavar="OWNER/NAME", help="Repository; created if it does not exist.")],
    license_id: Annotated[
        str | None, typer.Option("--license", help="Licence of the weights, as a Hub identifier.")
    ] = None,
    metrics: Annotated[
        Path | None, typer.Option("--metrics", help="Output of `lamina eval --json`, for the model card.")
    ] = None,
    private: Annotated[bool, typer.Option("--private", help="Make a new repository private.")] = False,
) -> None:
    """Upload a model and its card to the Hugging Face Hub.

    Log in first with `hf auth login`. Afterwards, `lamina.load` and every command that takes a model accept
    `hf:OWNER/NAME`; an ONNX export can only translate, and other exports are read by their own libraries.

    [bold]Example[/bold]

        lamina push runs/first me/first-en-de --license cc-by-4.0
    """
    from lamina.interop.huggingface.hub import LIBRARIES, export_format, push_model

    print(push_model(folder, repository, license_id, metrics, private))
    if LIBRARIES[export_format(folder)] == "lamina":
        say_next("lamina", "translate", f"hf:{repository}")
