"""`lamina eval`: translate a test set and score it."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
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
    Tokenize,
    with_search_options,
)
from lamina.cli.outputs import Force, check_output, open_output
from lamina.errors import UsageError

if TYPE_CHECKING:
    from lamina.recipe.decode import SearchSettings
    from lamina.translation import Translator


@with_search_options
def evaluate(
    run: Annotated[Path | None, typer.Argument(metavar="RUN", help="A run or model.")] = None,
    *,
    test: Annotated[
        tuple[Path, Path],
        typer.Option("--test", metavar="SRC TGT", help="A test set: two parallel files. For m2 TGT is the .m2 file."),
    ],
    search: dict[str, Any],
    references: Annotated[
        list[Path] | None, typer.Option("--ref", help="A further reference; may be repeated.")
    ] = None,
    baseline: Annotated[
        str | None, typer.Option("--baseline", help="Instead of RUN, a trivial system: copy or lead-K (lead-3).")
    ] = None,
    metrics: Metrics = None,
    lowercase: Lowercase = False,
    tokenize: Tokenize = None,
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

        lamina eval --baseline lead-3 --test test.body test.subject --metric rouge
    """
    from lamina.scoring.baselines import run_baseline
    from lamina.scoring.files import read_test_set
    from lamina.scoring.metrics import build_metrics, names_to_compare
    from lamina.scoring.protocol import score
    from lamina.scoring.significance import score_interval
    from lamina.translation import load

    names = names_to_compare(metrics or [])
    if (run is None) == (baseline is None):
        raise UsageError("Give either RUN or --baseline copy|lead-K.")
    check_output(output, test, force)
    sources, gold = read_test_set(test, references or (), lowercase=lowercase, m2="m2" in names, tokenize=tokenize)
    if run is None:
        lines = run_baseline(str(baseline), sources)
    else:
        translator = load(run, checkpoint=checkpoint, device=device, threads=threads, int8=int8, shortlist=shortlist)
        lines = translate_lines(translator, run, sources, translator.settings.with_options(**search))
        gold = replace(gold, language=translator.text.target.language)
    if output is not None:
        with open_output(output) as target:
            target.write("".join(f"{line}\n" for line in lines))
    each = build_metrics(names, gold)
    results, intervals = [score(metric, lines) for metric in each], [score_interval(metric, lines) for metric in each]
    if as_json:
        rows = zip(results, intervals, strict=True)
        records = [{**asdict(result), "interval": list(interval)} for result, interval in rows]
        print(json.dumps(records, indent=2, ensure_ascii=False))
        return
    for result, interval in zip(results, intervals, strict=True):
        print(f"{result.name}  {result.score:.2f} ± {interval.half_width:.2f}  {result.signature}")


def translate_lines(translator: Translator, run: Path, lines: list[str], settings: SearchSettings) -> list[str]:
    """Translations, with a bar."""
    from lamina.cli.progress import show_progress

    results = []
    with show_progress() as progress:
        for result in translator.stream(lines, settings):
            results.append(result.text)
            progress(f"translating with {run}", len(results), len(lines))
    return results
