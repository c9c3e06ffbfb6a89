"""`lamina eval`: translate a test set and score it."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from lamina.cli.translate import recipe_decode

if TYPE_CHECKING:
    from lamina.translation import Translator


def evaluate(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run or model.")],
    test: Annotated[
        tuple[Path, Path], typer.Option("--test", metavar="SRC TGT", help="A test set: two parallel files.")
    ],
    metrics: Annotated[
        list[str] | None, typer.Option("--metric", help="See `lamina score`.", show_default="bleu,chrf")
    ] = None,
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Ignore case.")] = False,
    beam: Annotated[
        int | None, typer.Option("--beam", min=1, help="Beam size.", show_default="the recipe's, else 5")
    ] = None,
    lenpen: Annotated[
        float | None, typer.Option("--lenpen", help="Length penalty.", show_default="the recipe's, else 1.0")
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", help="Also write the translations here.")] = None,
    checkpoint: Annotated[str, typer.Option("--checkpoint", help="best, last or a step.")] = "best",
    int8: Annotated[bool, typer.Option("--int8", help="Matrix products in 8 bits (CPU).")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
    device: Annotated[Literal["auto", "cpu", "cuda"], typer.Option("--device", help="Where to decode.")] = "auto",
    threads: Annotated[
        int | None, typer.Option("--threads", min=1, help="CPU threads.", show_default="torch's choice")
    ] = None,
) -> None:
    """Translate a test set and score it; every number comes with what it was measured by.

    [bold]Examples[/bold]

        lamina eval runs/first --test test.en test.de

        lamina eval runs/first/averaged --test test.en test.de --metric multi-bleu --lowercase --output out.de
    """
    from lamina.corpus.reading import TwoFiles
    from lamina.scoring.metrics import build_metrics, check_names
    from lamina.scoring.protocol import Gold
    from lamina.scoring.protocol import score as carry_out
    from lamina.translation import load

    names = check_names(metrics or [])
    translator = load(run, checkpoint=checkpoint, device=device, threads=threads, int8=int8)
    source, target = test
    pairs = list(TwoFiles(source, target).pairs())
    sources, references = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    lines = translate_lines(translator, run, sources, beam, lenpen)
    if output is not None:
        output.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    gold = Gold([references], sources, lowercase, [str(target)])
    results = [carry_out(metric, lines) for metric in build_metrics(names, gold)]
    if as_json:
        print(json.dumps([asdict(result) for result in results], indent=2, ensure_ascii=False))
        return
    for result in results:
        print(f"{result.name}  {result.score:.2f}  {result.signature}")


def translate_lines(
    translator: Translator, run: Path, lines: list[str], beam: int | None, lenpen: float | None
) -> list[str]:
    """Lines translated as the run's recipe says, unless told otherwise."""
    from lamina.cli.progress import show_progress
    from lamina.search.settings import SearchSettings

    recipe_beam, recipe_lenpen = recipe_decode(run)
    settings = SearchSettings(beam=beam or recipe_beam, lenpen=recipe_lenpen if lenpen is None else lenpen)
    results = []
    with show_progress() as progress:
        for result in translator.stream(lines, settings):
            results.append(result.text)
            progress(f"translating with {run}", len(results), len(lines))
    return results
