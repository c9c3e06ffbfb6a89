"""`lamina bench`: throughput on this machine, as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from lamina.cli.command import Command, Group
from lamina.cli.options import Device, Int8, Threads

bench = typer.Typer(cls=Group, no_args_is_help=True)


@bench.callback()
def choose() -> None:
    """Measure throughput on this machine and print it as JSON.

    [bold]Examples[/bold]

        lamina bench train recipe.yaml --data data

        lamina bench decode runs/first --input test.en
    """


@bench.command("train", cls=Command)
def bench_train(
    recipe: Annotated[
        Path, typer.Argument(metavar="RECIPE", help="Recipe file, or name of a system or shipped recipe.")
    ],
    data: Annotated[Path, typer.Option("--data", help="Data folder written by `lamina prepare`.")] = Path("data"),
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY.PATH=VALUE", help="Override a recipe value; repeatable.")
    ] = None,
    steps: Annotated[int, typer.Option("--steps", min=1, help="Number of timed updates, after 2 for warm-up.")] = 20,
    device: Device = "auto",
    threads: Threads = None,
) -> None:
    """Measure training: tokens per second, fraction of the machine's peak matrix-product speed, peak memory.

    Source and target tokens are counted, without padding. Nothing is saved.

    [bold]Example[/bold]

        lamina bench train recipe.yaml --data data --steps 20
    """
    from tempfile import TemporaryDirectory

    import torch

    from lamina.base.devices import choose_device
    from lamina.bench.training import benchmark_trainer, measure_training

    if threads is not None:
        torch.set_num_threads(threads)
    with TemporaryDirectory() as scratch:
        trainer = benchmark_trainer(recipe, overrides or [], data, Path(scratch), choose_device(device))
        print(json.dumps(measure_training(trainer, steps), indent=2))


@bench.command("decode", cls=Command)
def bench_decode(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run or model.")],
    input_file: Annotated[Path, typer.Option("--input", help="Lines to translate.")],
    beam: Annotated[int, typer.Option("--beam", min=1, help="Beam size.")] = 5,
    batch: Annotated[
        list[int] | None,
        typer.Option("--batch", min=1, help="Sentences per batch; repeatable.", show_default="32 and 1"),
    ] = None,
    sentences: Annotated[int, typer.Option("--sentences", min=1, help="Maximum number of lines.")] = 1000,
    repeats: Annotated[int, typer.Option("--repeats", min=1, help="Repetitions; the median is reported.")] = 3,
    int8: Int8 = False,
    device: Device = "auto",
    threads: Threads = None,
) -> None:
    """Measure decoding: output tokens (including eos) and sentences per second.

    [bold]Example[/bold]

        lamina bench decode runs/first --input test.en --batch 32 --batch 1
    """
    from lamina.bench.decoding import measure_decoding

    report = measure_decoding(
        run, input_file, beam, batch or [32, 1], sentences, repeats, int8=int8, device=device, threads=threads
    )
    print(json.dumps(report, indent=2))


@bench.command("prepare", cls=Command)
def bench_prepare(
    train: Annotated[tuple[Path, Path], typer.Option("--train", metavar="SRC TGT", help="Two parallel files.")],
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, help="Number of processes.", show_default="all cores")
    ] = None,
    batch_tokens: Annotated[int, typer.Option("--batch-tokens", min=1, help="Padded target tokens per batch.")] = 4096,
    vocab_size: Annotated[int, typer.Option("--vocab-size", min=5, help="Number of subwords to learn.")] = 8000,
    repeats: Annotated[
        int, typer.Option("--repeats", min=1, help="Interleaved repetitions; the median is reported.")
    ] = 3,
) -> None:
    """Measure encoding (compared with SentencePiece alone), batch loading (compared with training) and padding.

    [bold]Example[/bold]

        lamina bench prepare --train train.en train.de
    """
    from lamina.base.threads import usable_cores
    from lamina.bench.preparing import measure
    from lamina.corpus.reading import TwoFiles

    report = measure(TwoFiles(*train), workers or usable_cores(), batch_tokens, vocab_size, repeats)
    print(json.dumps(report, indent=2))


@bench.command("serve", cls=Command)
def bench_serve(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run or model.")],
    input_file: Annotated[Path, typer.Option("--input", help="Lines to translate.")],
    beam: Annotated[int, typer.Option("--beam", min=1, max=20, help="Beam size.")] = 5,
    clients: Annotated[
        list[int] | None,
        typer.Option(
            "--clients", min=1, max=500, help="Number of concurrent clients; repeatable.", show_default="1, 8 and 64"
        ),
    ] = None,
    sentences: Annotated[int, typer.Option("--sentences", min=1, help="Maximum number of lines.")] = 1000,
    repeats: Annotated[int, typer.Option("--repeats", min=1, help="Repetitions; the median is reported.")] = 3,
    int8: Int8 = False,
) -> None:
    """Measure the server over loopback, compared with in-process calls to the same model.

    Reports latency and tokens per second by number of clients, and the latency of short requests while a document is
    translated.

    [bold]Example[/bold]

        lamina bench serve runs/first --input test.en
    """
    from lamina.bench.serving import measure_serving

    report = measure_serving(run, input_file, beam, clients or [1, 8, 64], sentences, repeats, int8)
    print(json.dumps(report, indent=2))
