"""`lamina bench`: throughput on this machine, as JSON."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

import typer

bench = typer.Typer(no_args_is_help=True, help="Measure throughput on this machine; prints JSON.")


@bench.callback()
def choose() -> None:
    """Measure throughput on this machine; prints JSON."""


@bench.command("prepare")
def bench_prepare(
    train: Annotated[tuple[Path, Path], typer.Option("--train", metavar="SRC TGT", help="Two parallel files.")],
    workers: Annotated[
        int, typer.Option("--workers", min=1, help="Processes.", show_default="all cores")
    ] = os.cpu_count() or 1,
    batch_tokens: Annotated[int, typer.Option("--batch-tokens", min=1, help="Padded target tokens per batch.")] = 4096,
    vocab_size: Annotated[int, typer.Option("--vocab-size", min=5, help="Subwords to learn.")] = 8000,
    repeats: Annotated[int, typer.Option("--repeats", min=1, help="Interleaved rounds; the median counts.")] = 3,
) -> None:
    """Encoding beside SentencePiece alone, batches beside training, and the share of padding.

    [bold]Example[/bold]

        lamina bench prepare --train train.en train.de
    """
    from lamina.corpus.reading import TwoFiles
    from lamina.corpus.speed import measure

    print(json.dumps(measure(TwoFiles(*train), workers, batch_tokens, vocab_size, repeats), indent=2))
