"""`lamina rescore`: a model's scores of given translations."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lamina.base.wording import counted
from lamina.cli.options import Checkpoint, Device, Threads
from lamina.errors import DataError, UsageError

if TYPE_CHECKING:
    from lamina.translation.rescoring import Given


def rescore(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="Run or model; several form an ensemble.")],
    input_file: Annotated[
        Path | None, typer.Option("--input", help="Output of `lamina translate --format jsonl`.")
    ] = None,
    source: Annotated[Path | None, typer.Option("--source", help="Source text.")] = None,
    target: Annotated[Path | None, typer.Option("--target", help="Translations of --source.")] = None,
    lenpen: Annotated[
        float | None, typer.Option("--lenpen", help="Length penalty.", show_default="the run's, else 1.0")
    ] = None,
    checkpoint: Checkpoint = "best",
    device: Device = "auto",
    threads: Threads = None,
) -> None:
    """Score existing translations with a model and print a JSON line with `line`, `score` and `log_prob` for each.

    From jsonl, the tokens of every `nbest` entry are scored, so scores match those of `translate` to within
    1e-4. Plain text is segmented again.

    [bold]Examples[/bold]

        lamina rescore runs/first --input out.jsonl

        lamina rescore runs/first --source test.en --target test.de
    """
    from lamina.scoring.evaluation import languages_of
    from lamina.translation import load
    from lamina.translation.rescoring import rescore_all

    if (input_file is None) == (source is None) or (source is None) != (target is None):
        raise UsageError("Give either --input OUT.jsonl, or --source and --target.")
    translator = load(*runs, checkpoint=checkpoint, device=device, threads=threads)
    pairs = read_jsonl(input_file) if input_file is not None else read_pairs(source, target, languages_of(translator))
    for given, cut, found in rescore_all(translator, pairs, lenpen):
        if cut:
            print(f"lamina: line {given.number}: truncated: {counted(cut, 'source subword')} dropped.", file=sys.stderr)
        record = {"line": given.number, "score": round(found.score, 6), "log_prob": round(found.log_prob, 6)}
        print(json.dumps(record))


def read_jsonl(path: Path) -> Iterator[Given]:
    """Yield each translation in `translate`'s jsonl with its tokens; blank ones are skipped."""
    from lamina.base.reading import read_lines
    from lamina.translation.rescoring import Given

    for number, line in enumerate(read_lines(path), start=1):
        try:
            record = json.loads(line)
            nbest = [entry["tokens"] for entry in record["nbest"]]
            source, line_number = record["source"], int(record["line"])
            if not isinstance(source, str) or not all(isinstance(token, str) for tokens in nbest for token in tokens):
                raise TypeError("text expected")
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise DataError(f"{path}:{number}: not a line of `lamina translate --format jsonl`.") from error
        yield from (Given(line_number, source, tokens, path) for tokens in nbest if tokens)


def read_pairs(source: Path | None, target: Path | None, langs: tuple[str, str] | None) -> Iterator[Given]:
    """Yield the pairs of two parallel files."""
    from lamina.corpus.reading import TwoFiles
    from lamina.translation.rescoring import Given

    assert source is not None
    assert target is not None
    files = TwoFiles(source, target)
    files.check_direction(langs, "--source, --target")
    for number, (text, translation) in enumerate(files.pairs(), start=1):
        yield Given(number, text, translation, target)
