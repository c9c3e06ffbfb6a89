"""`lamina compare`: several outputs in one table, with confidence intervals and p-values."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
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
    baselines: Annotated[
        list[str] | None, typer.Option("--baseline", help="With runs, a trivial system before them: copy or lead-K.")
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
    from lamina.scoring.metrics import names_to_compare

    names = names_to_compare(metrics or [])
    if runs or baselines:
        if test is None or hypotheses:
            raise UsageError("Runs are compared on a test set: give --test SRC TGT, without --hyp.")
        systems = [*(baselines or []), *(str(path) for path in runs or [])]
        gold, outputs = run_all(
            runs or [], baselines or [], test, references or [], names, lowercase, tokenize, search, device, threads
        )
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


def run_all(
    runs: Sequence[Path],
    baselines: Sequence[str],
    test: tuple[Path, Path],
    references: Sequence[Path],
    metrics: Sequence[str],
    lowercase: bool,
    tokenize: str | None,
    search: dict[str, Any],
    device: str,
    threads: int | None,
) -> tuple[Gold, list[list[str]]]:
    """What every baseline and run writes for a test set, and what it is measured against."""
    from lamina.cli.evaluate import translate_lines
    from lamina.scoring.baselines import run_baseline
    from lamina.scoring.files import read_test_set
    from lamina.translation import load

    sources, gold = read_test_set(test, references, lowercase=lowercase, m2="m2" in metrics, tokenize=tokenize)
    outputs = [run_baseline(name, sources) for name in baselines]
    for run in runs:
        translator = load(run, device=device, threads=threads)
        outputs.append(translate_lines(translator, run, sources, translator.settings.with_options(**search)))
        gold = replace(gold, language=translator.text.target.language)
    return gold, outputs


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
