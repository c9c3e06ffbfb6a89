"""`lamina import-fairseq`: convert fairseq checkpoints to model folders."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lamina.cli.next_step import say_next


def import_fairseq(
    checkpoint: Annotated[
        Path, typer.Argument(metavar="CHECKPOINT", help="Checkpoint of fairseq 0.9 or of the SurfaceFusion release.")
    ],
    source_dict: Annotated[Path, typer.Option("--source-dict", help="The source language's dict.LL.txt.")],
    target_dict: Annotated[Path, typer.Option("--target-dict", help="The target language's dict.LL.txt.")],
    out: Annotated[Path, typer.Option("--out", help="Model folder to write; must not exist yet.")],
) -> None:
    """Convert a fairseq checkpoint to a Lamina model folder.

    No pickled code in the checkpoint is executed.

    [bold]Example[/bold]

        lamina import-fairseq checkpoint_best.pt --source-dict dict.en.txt --target-dict dict.ro.txt --out en-ro
    """
    from lamina.base.files import require_absent
    from lamina.interop.fairseq import load_checkpoint
    from lamina.store.model_folder import write_model_folder
    from lamina.text.pipeline import pipeline_of_words

    require_absent(out)
    model, vocabularies = load_checkpoint(checkpoint, source_dict, target_dict)
    origin = f"Imported from the fairseq checkpoint `{checkpoint.name}`."
    write_model_folder(out, model, pipeline_of_words(vocabularies), origin)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    config = model.config
    print(f"{out}: {config.encoder.type} × {config.bridge.type} × {config.head.type}, {parameters:,} parameters")
    say_next("lamina", "translate", out)
