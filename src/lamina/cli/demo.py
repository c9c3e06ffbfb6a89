"""`lamina demo`: the whole pipeline on the built-in corpus in a few minutes."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from lamina.cli.next_step import say_next

EXAMPLES = 4


def demo(
    out: Annotated[Path, typer.Option("--out", help="Output folder.")] = Path("demo"),
    steps: Annotated[int, typer.Option("--steps", min=10, help="Training steps of each model.")] = 400,
    pairs: Annotated[int, typer.Option("--pairs", min=100, help="Training pairs.")] = 50_000,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only the results.")] = False,
) -> None:
    """Prepare, train, translate, score and report on the built-in corpus, in minutes on two cores.

    Trains a plain Transformer and a fused model (MSC with SurfaceFusion's softmax) for the same number of updates on
    English–German sentences from a grammar, and compares them. Rerun the same command to resume.

    [bold]Examples[/bold]

        lamina demo

        lamina demo --out /tmp/demo --steps 2000
    """
    from lamina.cli.progress import show_progress, show_training
    from lamina.demo.story import DemoSize, prepare_corpus, train_side_by_side, translate_and_score
    from lamina.scoring.compare import Comparison

    size = DemoSize(train=pairs, steps=steps)
    started = time.monotonic()

    def say(line: str) -> None:
        if not quiet:
            print(f"[{time.monotonic() - started:4.0f} s] {line}", file=sys.stderr)

    say(f"writing {size.train:,} English–German sentence pairs and preparing them")
    with show_progress(quiet) as progress:
        prepare_corpus(out, size, progress)
    say(f"training a plain Transformer and a fused model (MSC + SurfaceFusion) side by side, {size.steps} updates each")
    with show_training(quiet) as show:
        train_side_by_side(out, size, show)
    say(f"translating {size.test} test sentences with both models")
    outputs, rows = translate_and_score(out)
    for number in outputs.examples(EXAMPLES):
        print(f"source     {outputs.sources[number]}")
        for name, lines in outputs.by_system.items():
            print(f"{name:10} {lines[number]}")
        print(f"reference  {outputs.references[number]}\n")
    print(Comparison(rows))
    say("done")
    print(f"\nReport: {out / 'report.html'}")
    say_next("lamina", "translate", out / "runs" / "fused", quiet=quiet)
