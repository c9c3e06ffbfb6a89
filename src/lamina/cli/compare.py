"""`lamina compare`: several outputs in one table, with confidence intervals and p-values."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from lamina.cli.score import NAMES
from lamina.cli.systems import print_columns
from lamina.errors import UsageError

if TYPE_CHECKING:
    from lamina.scoring.compare import Row
    from lamina.scoring.protocol import Gold


def compare(
    runs: Annotated[
        list[Path] | None, typer.Argument(metavar="RUN", help="Runs or models; the first is the baseline.")
    ] = None,
    test: Annotated[
        tuple[Path, Path] | None, typer.Option("--test", metavar="SRC TGT", help="What the runs translate.")
    ] = None,
    hypotheses: Annotated[
        list[Path] | None, typer.Option("--hyp", help="An output, two or more of them; the first is the baseline.")
    ] = None,
    references: Annotated[
        list[Path] | None, typer.Option("--ref", help="A reference; may be repeated. For m2 the .m2 file.")
    ] = None,
    source: Annotated[
        Path | None, typer.Option("--source", help="What was translated or corrected (for gleu).")
    ] = None,
    metrics: Annotated[
        list[str] | None,
        typer.Option("--metric", help=f"{NAMES}; may be repeated, or several with commas.", show_default="bleu,chrf"),
    ] = None,
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Ignore case.")] = False,
    significance: Annotated[
        Literal["bootstrap", "randomisation", "both"],
        typer.Option("--significance", help="Paired bootstrap, approximate randomisation, or both."),
    ] = "bootstrap",
    samples: Annotated[
        int | None,
        typer.Option("--samples", min=1, help="Resampled test sets.", show_default="1000; randomisation 10000"),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The same seed gives the same p-values.")] = 1,
    beam: Annotated[
        int | None, typer.Option("--beam", min=1, help="Beam size.", show_default="each recipe's, else 5")
    ] = None,
    lenpen: Annotated[
        float | None, typer.Option("--lenpen", help="Length penalty.", show_default="each recipe's, else 1.0")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Compare outputs: scores with 95% confidence intervals, differences to the first and their p-values.

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
            raise UsageError("Runs are compared on a test set: give --test SRC TGT, and no --hyp or --ref.")
        systems = [str(path) for path in runs]
        outputs, gold = translate_all(runs, test, lowercase, beam, lenpen)
    else:
        if not hypotheses or not references:
            raise UsageError("Give either --ref and two or more --hyp, or two or more runs and --test SRC TGT.")
        systems = [str(path) for path in hypotheses]
        outputs, gold = read_texts(hypotheses, references, source, lowercase=lowercase, m2="m2" in names)
    if len(systems) < 2:
        raise UsageError(f"There is only {systems[0]}. Give the baseline first, then what to compare with it.")
    rows = compare_outputs(systems, outputs, gold, metrics=names, test=significance, samples=samples, seed=seed)
    if as_json:
        print(json.dumps([row.as_json() for row in rows], indent=2, ensure_ascii=False))
    else:
        print_rows(rows, significance)


def translate_all(
    runs: Sequence[Path], test: tuple[Path, Path], lowercase: bool, beam: int | None, lenpen: float | None
) -> tuple[list[list[str]], Gold]:
    """Every run's translation of a test set, and what they are measured against."""
    from lamina.cli.evaluate import translate_lines
    from lamina.corpus.reading import TwoFiles
    from lamina.scoring.protocol import Gold
    from lamina.translation import load

    sources, references = map(list, zip(*TwoFiles(*test).pairs(), strict=True))
    outputs = [translate_lines(load(run), run, sources, beam, lenpen) for run in runs]
    return outputs, Gold([references], sources, lowercase, [str(test[1])])


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
