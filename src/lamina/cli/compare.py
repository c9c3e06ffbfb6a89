"""`lamina compare`: a table of several outputs with confidence intervals and p-values."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from lamina.cli.evaluate import warn_if_tokenised
from lamina.cli.options import AsJson, Lowercase, Metrics, Sources, Tokenize, given_options, with_decoding_options
from lamina.cli.outputs import Force, check_output, open_output
from lamina.errors import UsageError


@with_decoding_options
def compare(
    runs: Annotated[
        list[Path] | None, typer.Argument(metavar="RUN", help="Runs or models; the first is the baseline.")
    ] = None,
    *,
    test: Annotated[
        tuple[Path, Path] | None, typer.Option("--test", metavar="SRC TGT", help="Test set for the runs.")
    ] = None,
    hypotheses: Annotated[
        list[Path] | None, typer.Option("--hyp", help="System output; repeat for each system, baseline first.")
    ] = None,
    references: Annotated[
        list[Path] | None, typer.Option("--ref", help="Reference file; repeatable. For m2, the .m2 file.")
    ] = None,
    baselines: Annotated[
        list[str] | None,
        typer.Option("--baseline", help="With runs: put a trivial system first, copy or lead-K; repeatable."),
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
        typer.Option(
            "--samples",
            min=1,
            help="Number of bootstrap samples, or of randomisation trials.",
            show_default="1000; randomisation 10000",
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Random seed for the significance tests.")] = 1,
    output: Annotated[
        Path | None, typer.Option("--output", metavar="DIR", help="Also write each run's translations to this folder.")
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
    decoding: dict[str, Any],
) -> None:
    """Compare systems: scores with 95% confidence intervals, differences from the baseline and p-values.

    [bold]Examples[/bold]

        lamina compare --ref test.de --hyp baseline.de --hyp mine.de

        lamina compare --ref test.de --hyp a.de --hyp b.de --hyp c.de --metric bleu,chrf,ter --significance both

        lamina compare runs/plain runs/fused --test test.en test.de
    """
    from lamina.api.scores import compare as compare_runs
    from lamina.cli.progress import show_progress
    from lamina.scoring.compare import Comparison, compare_outputs
    from lamina.scoring.files import read_texts
    from lamina.scoring.metrics import names_to_compare

    if runs or baselines:
        if test is None or hypotheses:
            raise UsageError("Runs and baselines are compared on a test set: give --test SRC TGT, without --hyp.")
        files = output_files(output, [*(baselines or []), *(str(path) for path in runs or [])], test, force)
        with show_progress() as progress:
            comparison = compare_runs(
                runs or [],
                test,
                baselines=baselines or (),
                metrics=metrics or (),
                references=references or (),
                lowercase=lowercase,
                tokenize=tokenize,
                significance=significance,
                samples=samples,
                seed=seed,
                progress=progress,
                **decoding,
            )
        warn_if_tokenised(test[1], [row.metric for row in comparison])
        write_outputs(files, comparison.translations)
    else:
        if not hypotheses or not references:
            raise UsageError("Give --ref and at least two --hyp, or at least two runs and --test SRC TGT.")
        if given := given_options({**decoding, "output": output}):
            raise UsageError(f"{given[0]} is for the translations of runs; it cannot be used with --hyp.")
        names, systems = names_to_compare(metrics or []), [str(path) for path in hypotheses]
        if len(systems) < 2:
            raise UsageError(
                f"Only {systems[0]} was given. Give the baseline first, then the systems to compare with it."
            )
        outputs, gold = read_texts(
            hypotheses, references, source, lowercase=lowercase, m2="m2" in names, tokenize=tokenize
        )
        rows = compare_outputs(systems, outputs, gold, metrics=names, test=significance, samples=samples, seed=seed)
        comparison = Comparison(rows, significance, sentences=len(outputs[0]))
    if as_json:
        print(json.dumps([row.as_json() for row in comparison], indent=2, ensure_ascii=False))
    else:
        print(comparison)


def output_files(folder: Path | None, systems: Sequence[str], test: tuple[Path, Path], force: bool) -> dict[str, Path]:
    """Output file of each system; empty without an output folder."""
    if folder is None:
        return {}
    if folder.is_file():
        raise UsageError(f"{folder}: is a file; --output is a folder.")
    suffix = test[1].name.partition(".")[2] or "txt"
    names = [re.sub(r"[^\w.-]+", "-", system).strip("-.") for system in systems]
    files = {system: folder / f"{name}.{suffix}" for system, name in zip(systems, names, strict=True)}
    for path in files.values():
        check_output(path, test, force)
    return files


def write_outputs(files: dict[str, Path], translations: dict[str, list[str]]) -> None:
    """Write each system's translations."""
    for system, path in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        with open_output(path) as target:
            target.write("".join(f"{line}\n" for line in translations[system]))
