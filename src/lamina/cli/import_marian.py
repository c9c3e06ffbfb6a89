"""`lamina import-marian`: OPUS-MT checkpoints become model folders."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lamina.cli.next_step import say_next


def import_marian(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="A Marian checkpoint in Hugging Face format, such as OPUS-MT's.")
    ],
    out: Annotated[Path, typer.Option("--out", help="The model folder to write; must not exist yet.")],
) -> None:
    """Turn a Marian checkpoint in Hugging Face format into a Lamina model folder.

    It translates, fine-tunes (`lamina train --init-from`) and can be analysed like any other model.

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
    say_next("lamina", "translate", out, "--input", "FILE")
