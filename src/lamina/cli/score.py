"""`lamina score`: metrics of one output, each with its signature."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from lamina.cli.options import AsJson, Lowercase, Metrics, Sources, Tokenize


def score(
    hypothesis: Annotated[Path, typer.Option("--hyp", help="System output, one sentence per line.")],
    references: Annotated[list[Path], typer.Option("--ref", help="Reference file; repeatable. For m2, the .m2 file.")],
    source: Sources = None,
    metrics: Metrics = None,
    lowercase: Lowercase = False,
    tokenize: Tokenize = None,
    as_json: AsJson = False,
) -> None:
    """Score system output against references. Files may be plain, .gz or .zst.

    [bold]Examples[/bold]

        lamina score --hyp out.de --ref test.de

        lamina score --hyp out --ref ref0 --ref ref1 --source src --metric gleu

        lamina score --hyp out --ref test.m2 --metric m2 --json
    """
    from lamina.scoring.files import read_texts
    from lamina.scoring.metrics import build_metrics, check_names
    from lamina.scoring.protocol import score as compute

    names = check_names(metrics or [])
    (lines,), gold = read_texts(
        [hypothesis], references, source, lowercase=lowercase, m2="m2" in names, tokenize=tokenize
    )
    results = [compute(metric, lines) for metric in build_metrics(names, gold)]
    if as_json:
        print(json.dumps([result.as_json() for result in results], indent=2, ensure_ascii=False))
        return
    for result in results:
        details = ", ".join(f"{name} {figure(value)}" for name, value in result.details.items())
        print(f"{result.name}  {result.score:.2f}  ({details})  {result.signature}")


def figure(value: float) -> str:
    """Format counts as integers, other values with two decimals."""
    return f"{value:.0f}" if float(value).is_integer() else f"{value:.2f}"
