"""`lamina compare`: several outputs in one table, with confidence intervals and p-values."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from lamina.cli.options import AsJson, Device, Lowercase, Metrics, Sources, Threads, Tokenize, with_search_options
from lamina.cli.tables import print_columns
from lamina.errors import UsageError

if TYPE_CHECKING:
    from lamina.scoring.compare import Row
    from lamina.scoring.protocol import Gold


@with_search_options
def compare(
    runs: Annotated[
        list[Path] | None, typer.Argument(metavar="RUN", help="Runs or models; the first is the baseline.")
    ] = None,
    *,
    search: dict[str, Any],
    test: Annotated[
        tuple[Path, Path] | None, typer.Option("--test", metavar="SRC TGT", help="The test set the runs translate.")
    ] = None,
    hypotheses: Annotated[
        list[Path] | None, typer.Option("--hyp", help="System output; repeat for each system, baseline first.")
    ] = None,
    references: Annotated[
        list[Path] | None, typer.Option("--ref", help="Reference file; repeatable. For m2, the .m2 file.")
    ] = None,
    source: Sources = None,
    metrics: Metrics = None,
    lowercase: Lowercase = False,
    tokenize: Tokenize = None,
    significance: Annotated[
        Literal["bootstrap", "randomisation", "both"],
        typer.Option("--significance", help="Paired bootstrap, approximate randomisation, or both."),
    ] = "bootstrap",
    samples: Annotated[
        int | None,
        typer.Option("--samples", min=1, help="Resampled test sets.", show_default="1000; randomisation 10000"),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Random seed of the significance tests.")] = 1,
    device: Device = "auto",
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """Compare systems: scores with 95% confidence intervals, differences from the baseline and p-values.

    [bold]Examples[/bold]

        lamina compare --ref test.de --hyp baseline.de --hyp mine.de

        lamina compare --ref test.de --hyp a.de --hyp b.de --hyp c.de --metric bleu,chrf,ter --significance both

        lamina compare runs/plain runs/fused --test test.en test.de
    """
    from lamina.scoring.compare import compare_outputs
    from lamina.scoring.files import read_texts
    from lamina.scoring.metrics import check_names

    names = check_names(metrics or [])
    if runs:
        if test is None or hypotheses or references:
            raise UsageError("Runs are compared on a test set: give --test SRC TGT, without --hyp or --ref.")
        systems = [str(path) for path in runs]
        outputs, gold = translate_all(runs, test, lowercase, tokenize, search, device, threads)
    else:
        if not hypotheses or not references:
            raise UsageError("Give --ref and at least two --hyp, or at least two runs and --test SRC TGT.")
        systems = [str(path) for path in hypotheses]
        outputs, gold = read_texts(
            hypotheses, references, source, lowercase=lowercase, m2="m2" in names, tokenize=tokenize
        )
    if len(systems) < 2:
        raise UsageError(f"Only {systems[0]} was given. Give the baseline first, then the systems to compare with it.")
    rows = compare_outputs(systems, outputs, gold, metrics=names, test=significance, samples=samples, seed=seed)
    if as_json:
        print(json.dumps([row.as_json() for row in rows], indent=2, ensure_ascii=False))
    else:
        print_rows(rows, significance)


def translate_all(
    runs: Sequence[Path],
    test: tuple[Path, Path],
    lowercase: bool,
    tokenize: str | None,
    search: dict[str, Any],
    device: str,
    threads: int | None,
) -> tuple[list[list[str]], Gold]:
    """Every run's translation of a test set, and what they are measured against."""
    from lamina.cli.evaluate import translate_lines
    from lamina.corpus.reading import read_test
    from lamina.scoring.protocol import Gold
    from lamina.translation import load

    sources, references = read_test(*test)
    outputs = []
    for run in runs:
        translator = load(run, device=device, threads=threads)
        outputs.append(translate_lines(translator, run, sources, translator.settings.with_options(**search)))
    return outputs, Gold([references], sources, lowercase, [str(test[1])], translator.text.target.language, tokenize)


def print_rows(rows: Sequence[Row], test: str) -> None:
    """One table, and below it the signature of each metric."""
    tests = ("bootstrap", "randomisation") if test == "both" else (test,)
    heads = [f"p ({each})" for each in tests]
    cells: list[tuple[str, ...]] = [("metric", "system", "score", "difference", *heads)]
    for row in rows:
        score = f"{row.score:.2f} ± {row.interval.half_width:.2f}"
        if row.difference is None:
            cells.append((row.metric, row.system, score, "baseline", *("" for _ in tests)))
        else:
            found = {"bootstrap": row.p_bootstrap, "randomisation": row.p_randomisation}
            cells.append((row.metric, row.system, score, f"{row.difference:+.2f}", *(f"{found[t]:.4f}" for t in tests)))
    print_columns(cells)
    print()
    for row in rows:
        if row.difference is None:
            print(f"{row.metric}: {row.signature}{'' if row.higher_is_better else ' (lower is better)'}")
