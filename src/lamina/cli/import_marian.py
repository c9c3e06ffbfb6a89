"""`lamina import-marian`: convert OPUS-MT checkpoints to model folders."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lamina.cli.next_step import say_next


def import_marian(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Marian checkpoint in Hugging Face format, such as OPUS-MT.")
    ],
    out: Annotated[Path, typer.Option("--out", help="Model folder to write; must not exist yet.")],
) -> None:
    """Convert a Marian checkpoint in Hugging Face format to a model folder.

    The model can translate, be fine-tuned (`lamina train --init-from`) and be analysed like any other.

    [bold]Example[/bold]

        lamina import-marian opus-mt-en-de --out en-de
    """
    from lamina.base.files import require_absent
    from lamina.interop.huggingface.marian import load_marian
    from lamina.store.model_folder import write_model_folder

    require_absent(out)
    model, text, decode = load_marian(folder)
    write_model_folder(out, model, text, f"Imported from the Marian checkpoint `{folder.name}`.", decode)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    config = model.config
    print(f"{out}: {config.encoder.layers}+{config.decoder.layers} layers, {parameters:,} parameters")
    say_next("lamina", "translate", out)
