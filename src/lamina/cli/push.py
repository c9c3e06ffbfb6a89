"""`lamina push`: a model to the Hugging Face hub."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lamina.cli.next_step import say_next


def push(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A run, a model folder or an export.")],
    repository: Annotated[str, typer.Argument(metavar="OWNER/NAME", help="The repository; made if there is none.")],
    license_id: Annotated[
        str, typer.Option("--license", help="The license of the weights, as the hub writes it.")
    ] = "other",
    metrics: Annotated[
        Path | None, typer.Option("--metrics", help="What `lamina eval --json` printed, for the card.")
    ] = None,
    private: Annotated[bool, typer.Option("--private", help="Make a new repository private.")] = False,
) -> None:
    """Upload a model with its card to the Hugging Face hub.

    Log in first with `hf auth login`. `lamina.load("hf:OWNER/NAME")` and every command load it from there.

    [bold]Example[/bold]

        lamina push runs/first me/first-en-de --license cc-by-4.0
    """
    from lamina.interop.huggingface.hub import push_model

    print(push_model(folder, repository, license_id, metrics, private))
    say_next("lamina", "translate", f"hf:{repository}", "--input", "FILE")
