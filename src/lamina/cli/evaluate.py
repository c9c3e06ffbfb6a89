"""`lamina eval`: translate a test set and score it."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from lamina.cli.options import AsJson, Lowercase, Metrics, Tokenize, given_options, with_decoding_options
from lamina.cli.outputs import Force, check_output, open_output
from lamina.errors import UsageError


@with_decoding_options
def evaluate(
    run: Annotated[Path | None, typer.Argument(metavar="RUN", help="Run or model.")] = None,
    *,
    test: Annotated[
        tuple[Path, Path],
        typer.Option("--test", metavar="SRC TGT", help="Test set: two parallel files. For m2, TGT is the .m2 file."),
    ],
    references: Annotated[
        list[Path] | None, typer.Option("--ref", help="Additional reference file; repeatable.")
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option("--baseline", help="Score a trivial system instead of RUN: copy or lead-K (such as lead-3)."),
    ] = None,
    metrics: Metrics = None,
    lowercase: Lowercase = False,
    tokenize: Tokenize = None,
    output: Annotated[Path | None, typer.Option("--output", help="Also write the translations to this file.")] = None,
    force: Force = False,
    as_json: AsJson = False,
    decoding: dict[str, Any],
) -> None:
    """Translate a test set and score it; every score comes with its signature.

    [bold]Examples[/bold]

        lamina eval runs/first --test test.en test.de

        lamina eval runs/first/averaged --test test.en test.de --metric multi-bleu --lowercase --output out.de

        lamina eval --baseline lead-3 --test test.body test.subject --metric rouge
    """
    from lamina.api.scores import evaluate as evaluate_run
    from lamina.cli.progress import show_progress

    if run is None and (given := given_options(decoding)):
        raise UsageError(f"{given[0]} requires RUN.")
    check_output(output, test, force)
    with show_progress() as progress:
        scores = evaluate_run(
            run,
            test,
            metrics=metrics or (),
            references=references or (),
            baseline=baseline,
            lowercase=lowercase,
            tokenize=tokenize,
            progress=progress,
            **decoding,
        )
    warn_if_tokenised(test[1], [score.name for score in scores])
    if output is not None:
        with open_output(output) as target:
            target.write("".join(f"{line}\n" for line in scores.translations))
    if as_json:
        print(json.dumps([score.as_json() for score in scores], indent=2, ensure_ascii=False))
    else:
        print(scores)


def warn_if_tokenised(references: Path, metrics: Sequence[str]) -> None:
    """Warn if BLEU, which tokenises text itself, is computed on tokenised references."""
    from lamina.base.reading import read_lines
    from lamina.scoring.tokenizers import is_tokenised

    if "bleu" in metrics and is_tokenised(list(read_lines(references))):
        print(
            f"lamina: {references}: is tokenised, but `bleu` expects detokenised text; use --metric multi-bleu to "
            "compare with published scores on tokenised text.",
            file=sys.stderr,
        )
