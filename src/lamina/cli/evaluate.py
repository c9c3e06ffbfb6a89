"""`lamina eval`: translate a test set and score it."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lamina.cli.options import (
    AsJson,
    Checkpoint,
    Device,
    Int8,
    Lowercase,
    Metrics,
    ShortlistFolder,
    Threads,
    with_search_options,
)
from lamina.cli.outputs import Force, check_output, open_output

if TYPE_CHECKING:
    from lamina.recipe.decode import SearchSettings
    from lamina.translation import Translator


@with_search_options
def evaluate(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run or model.")],
    test: Annotated[
        tuple[Path, Path], typer.Option("--test", metavar="SRC TGT", help="A test set: two parallel files.")
    ],
    search: dict[str, Any],
    metrics: Metrics = None,
    lowercase: Lowercase = False,
    output: Annotated[Path | None, typer.Option("--output", help="Also write the translations here.")] = None,
    force: Force = False,
    checkpoint: Checkpoint = "best",
    int8: Int8 = False,
    shortlist: ShortlistFolder = None,
    as_json: AsJson = False,
    device: Device = "auto",
    threads: Threads = None,
) -> None:
    """Translate a test set and score it; every score comes with its signature.

    [bold]Examples[/bold]

        lamina eval runs/first --test test.en test.de

        lamina eval runs/first/averaged --test test.en test.de --metric multi-bleu --lowercase --output out.de
    """
    from lamina.corpus.reading import read_test
    from lamina.scoring.metrics import build_metrics, check_names
    from lamina.scoring.protocol import Gold, score
    from lamina.translation import load

    names = check_names(metrics or [])
    check_output(output, test, force)
    sources, references = read_test(*test)
    translator = load(run, checkpoint=checkpoint, device=device, threads=threads, int8=int8, shortlist=shortlist)
    lines = translate_lines(translator, run, sources, translator.settings.with_options(**search))
    if output is not None:
        with open_output(output) as target:
            target.write("".join(f"{line}\n" for line in lines))
    gold = Gold([references], sources, lowercase, [str(test[1])])
    results = [score(metric, lines) for metric in build_metrics(names, gold)]
    if as_json:
        print(json.dumps([asdict(result) for result in results], indent=2, ensure_ascii=False))
        return
    for result in results:
        print(f"{result.name}  {result.score:.2f}  {result.signature}")


def translate_lines(translator: Translator, run: Path, lines: list[str], settings: SearchSettings) -> list[str]:
    """Translations, with a bar."""
    from lamina.cli.progress import show_progress

    results = []
    with show_progress() as progress:
        for result in translator.stream(lines, settings):
            results.append(result.text)
            progress(f"translating with {run}", len(results), len(lines))
    return results
