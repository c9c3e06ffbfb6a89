"""`lamina translate`: text in, text out, N lines for N lines."""

from __future__ import annotations

import json
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TextIO

import typer

from lamina.cli.next_step import say_next
from lamina.errors import UsageError

if TYPE_CHECKING:
    from lamina.translation import Translation

Format = Literal["text", "jsonl", "tsv", "moses"]


def translate(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="A run or model; several are an ensemble.")],
    input_file: Annotated[
        Path | None, typer.Option("--input", help="Lines to translate (plain, .gz, .zst).", show_default="stdin")
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", help="Where to write.", show_default="stdout")] = None,
    beam: Annotated[
        int | None, typer.Option("--beam", min=1, help="Beam size.", show_default="the recipe's, else 5")
    ] = None,
    lenpen: Annotated[
        float | None, typer.Option("--lenpen", help="Length penalty.", show_default="the recipe's, else 1.0")
    ] = None,
    nbest: Annotated[int, typer.Option("--nbest", min=1, help="Translations per line (jsonl, tsv, moses).")] = 1,
    no_repeat_ngram: Annotated[int, typer.Option("--no-repeat-ngram", min=0, help="No n-gram twice; 0 is off.")] = 0,
    min_length: Annotated[int, typer.Option("--min-length", min=0, help="Tokens before the end mark.")] = 1,
    max_length: Annotated[
        tuple[float, int],
        typer.Option("--max-length", metavar="A B", help="At most A × (source tokens) + B tokens."),
    ] = (2.0, 20),
    prefix: Annotated[Path | None, typer.Option("--prefix", help="What each translation starts with, by line.")] = None,
    sample: Annotated[bool, typer.Option("--sample", help="Draw tokens instead of searching for the best.")] = False,
    temperature: Annotated[float, typer.Option("--temperature", min=0.0, help="With --sample; 0 is greedy.")] = 1.0,
    top_k: Annotated[int | None, typer.Option("--top-k", min=1, help="With --sample: of the k most likely.")] = None,
    top_p: Annotated[float | None, typer.Option("--top-p", help="With --sample: of this probability mass.")] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="With --sample.")] = 1,
    groups: Annotated[int, typer.Option("--diverse-groups", min=1, help="Groups of a diverse beam.")] = 1,
    diversity: Annotated[
        float, typer.Option("--diversity", help="What a group pays for an earlier one's token.")
    ] = 0.5,
    form: Annotated[Format, typer.Option("--format", help="`text` is one line for each line.")] = "text",
    alignments: Annotated[bool, typer.Option("--alignments", help="Source–target pairs of subwords (jsonl).")] = False,
    attention: Annotated[bool, typer.Option("--attention", help="The last layer's attention (jsonl).")] = False,
    checkpoint: Annotated[str, typer.Option("--checkpoint", help="best, last or a step.")] = "best",
    int8: Annotated[bool, typer.Option("--int8", help="Matrix products in 8 bits (CPU).")] = False,
    buffer: Annotated[int, typer.Option("--buffer", min=1, help="Lines read before any is translated.")] = 2000,
    device: Annotated[Literal["auto", "cpu", "cuda"], typer.Option("--device", help="Where to decode.")] = "auto",
    threads: Annotated[
        int | None, typer.Option("--threads", min=1, help="CPU threads.", show_default="torch's choice")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but translations and errors.")] = False,
) -> None:
    """Translate text: N lines in, N lines out, in order; a blank line stays blank.

    [bold]Examples[/bold]

        lamina translate runs/first --input test.en --output test.de

        echo "A dog runs." | lamina translate runs/first --format jsonl --nbest 3

        lamina translate runs/a runs/b --input test.en
    """
    from lamina.base.reading import decode_lines, read_lines
    from lamina.cli.progress import show_progress
    from lamina.search.sampling import SamplingSettings
    from lamina.search.settings import SearchSettings
    from lamina.translation import load

    if nbest > 1 and form == "text":
        raise UsageError("--nbest above 1 needs --format jsonl, tsv or moses.")
    if (alignments or attention) and form != "jsonl":
        raise UsageError("--alignments and --attention need --format jsonl.")
    if sample and prefix is not None:
        raise UsageError("--prefix is for beam search; leave --sample out.")
    if not sample and (temperature != 1.0 or top_k is not None or top_p is not None):
        raise UsageError("--temperature, --top-k and --top-p need --sample.")
    translator = load(*runs, checkpoint=checkpoint, device=device, threads=threads, int8=int8)
    for note in () if quiet else translator.notes:
        print(f"lamina: {note}", file=sys.stderr)
    recipe_beam, recipe_lenpen = recipe_decode(runs[0])
    settings = SearchSettings(
        beam=max(beam or recipe_beam, nbest),
        lenpen=recipe_lenpen if lenpen is None else lenpen,
        min_length=min_length,
        max_length=max_length,
        no_repeat_ngram=no_repeat_ngram,
        groups=groups,
        diversity=diversity,
    )
    drawing = SamplingSettings(temperature, top_k, top_p, seed) if sample else None
    interactive = input_file is None and sys.stdin.isatty()
    with ExitStack() as stack:
        lines = decode_lines(sys.stdin.buffer, "stdin") if input_file is None else read_lines(input_file)
        target: TextIO = sys.stdout if output is None else stack.enter_context(output.open("w", encoding="utf-8"))
        progress = stack.enter_context(show_progress(quiet or interactive or (output is None and sys.stdout.isatty())))
        sources: deque[str] = deque()
        results = translator.stream(
            record(lines, sources),
            settings,
            nbest,
            None if prefix is None else read_lines(prefix),
            drawing,
            attention or alignments,
            1 if interactive else buffer,
        )
        for number, result in enumerate(results, start=1):
            source = sources.popleft()
            if result.cut:
                note = f"line {number}: the last {result.cut:,} of its subwords were not read; split the line."
                print(f"lamina: {note}", file=sys.stderr)
            for line in render(form, number, source, result, attention, alignments):
                target.write(f"{line}\n")
            if interactive:
                target.flush()
            progress("translating", number, None)
    if output is not None and form == "text":
        say_next("lamina", "score", "--hyp", output, "--ref", "FILE", quiet=quiet)


def recipe_decode(run: Path) -> tuple[int, float]:
    """Beam and length penalty of a run's recipe; 5 and 1.0 for a model alone."""
    from lamina.recipe.loader import read_resolved
    from lamina.recipe.schema import DecodeSettings

    path = run / "recipe.yaml"
    decode = read_resolved(path).decode if path.is_file() else DecodeSettings()
    return decode.beam, decode.lenpen


def record(lines: Iterable[str], seen: deque[str]) -> Iterator[str]:
    """The lines; each is also appended to `seen`."""
    for line in lines:
        seen.append(line)
        yield line


def render(
    form: Format, number: int, source: str, result: Translation, attention: bool, alignments: bool
) -> Iterator[str]:
    """The output lines of one translation."""
    each = result.nbest or [result]
    if form == "text":
        yield result.text
    elif form == "tsv":
        yield from (f"{number}\t{one.score:.6f}\t{one.text}" for one in each)
    elif form == "moses":
        yield from (f"{number - 1} ||| {one.text} ||| log_prob={one.log_prob:.6f} ||| {one.score:.6f}" for one in each)
    else:
        record: dict[str, Any] = {"line": number, "source": source, **fields(result)}
        record["nbest"] = [fields(one) for one in each]
        if result.cut:
            record["cut"] = result.cut
        if result.attention is not None and attention:
            record["attention"] = [[round(weight, 4) for weight in row] for row in result.attention.tolist()]
        if result.attention is not None and alignments:
            record["alignments"] = [
                f"{place}-{row}" for row, place in enumerate(result.attention.argmax(dim=1).tolist())
            ]
        yield json.dumps(record, ensure_ascii=False)


def fields(result: Translation) -> dict[str, Any]:
    """What jsonl says of a translation."""
    return {
        "text": result.text,
        "score": round(result.score, 6),
        "log_prob": round(result.log_prob, 6),
        "tokens": result.tokens,
    }
