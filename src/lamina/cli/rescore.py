"""`lamina rescore`: a model's scores of given translations."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lamina.base.wording import counted
from lamina.cli.options import Checkpoint, Device, Threads
from lamina.errors import DataError, UsageError
from lamina.text.vocabulary import EOS, SPECIALS

if TYPE_CHECKING:
    from lamina.text.pipeline import LanguageText

CHUNK = 2000  # lines in memory
LONGEST_TARGET = 2048  # tokens


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
    from lamina.translation import load

    if (input_file is None) == (source is None) or (source is None) != (target is None):
        raise UsageError("Give either --input OUT.jsonl, or --source and --target.")
    translator = load(*runs, checkpoint=checkpoint, device=device, threads=threads)
    penalty = translator.settings.with_options(lenpen=lenpen).lenpen
    pairs = read_jsonl(input_file) if input_file is not None else read_pairs(source, target)
    while chunk := list(islice(pairs, CHUNK)):
        sources, cuts = translator.encode([text for _, text, _ in chunk])
        targets = [to_ids(translator.text.target, given, f"{input_file or target}:{line}") for line, _, given in chunk]
        results = translator.rescore(sources, targets, penalty)
        for (line, _, _), cut, result in zip(chunk, cuts, results, strict=True):
            if cut:
                print(f"lamina: line {line}: truncated: {counted(cut, 'source subword')} dropped.", file=sys.stderr)
            if not math.isfinite(result.log_prob):
                raise DataError(f"line {line}: log p is not finite; the model's weights are damaged.")
            record = {"line": line, "score": round(result.score, 6), "log_prob": round(result.log_prob, 6)}
            print(json.dumps(record))


def to_ids(target: LanguageText, given: Any, place: str) -> list[int]:
    """Ids of a text, or of tokens written by `translate`, which end with eos."""
    if isinstance(given, str):
        ids = target.encode([given])[0]
    elif given[-1] == SPECIALS[EOS]:
        ids = target.vocabulary.encode(given[:-1])
    else:
        raise DataError(f"{place}: the tokens must end with {SPECIALS[EOS]}, but end with `{given[-1]}` instead.")
    if len(ids) > LONGEST_TARGET:
        raise DataError(f"{place}: its target has {len(ids):,} tokens; at most {LONGEST_TARGET:,} can be scored.")
    return ids


def read_jsonl(path: Path) -> Iterator[tuple[int, str, Any]]:
    """Yield line number, source and tokens of each translation in `translate`'s jsonl; blank ones are skipped."""
    from lamina.base.reading import read_lines

    for number, line in enumerate(read_lines(path), start=1):
        try:
            record = json.loads(line)
            nbest = [entry["tokens"] for entry in record["nbest"]]
            source, line_number = record["source"], int(record["line"])
            if not isinstance(source, str) or not all(isinstance(token, str) for tokens in nbest for token in tokens):
                raise TypeError("text expected")
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise DataError(f"{path}:{number}: not a line of `lamina translate --format jsonl`.") from error
        yield from ((line_number, source, tokens) for tokens in nbest if tokens)


def read_pairs(source: Path | None, target: Path | None) -> Iterator[tuple[int, str, str]]:
    """Yield line numbers and pairs of two parallel files."""
    from lamina.corpus.reading import TwoFiles

    assert source is not None
    assert target is not None
    for number, (text, translation) in enumerate(TwoFiles(source, target).pairs(), start=1):
        yield number, text, translation
