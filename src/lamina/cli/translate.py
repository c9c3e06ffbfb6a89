"""`lamina translate`: translate text line by line."""

from __future__ import annotations

import json
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from lamina.base.wording import counted
from lamina.cli.options import (
    Checkpoint,
    ClusterOptions,
    Device,
    Int8,
    OnCluster,
    ShortlistFolder,
    Threads,
    with_search_options,
)
from lamina.cli.outputs import Force, check_output, open_output
from lamina.errors import DataError, UsageError
from lamina.names import flag

if TYPE_CHECKING:
    from lamina.recipe.decode import SearchSettings
    from lamina.search.sampling import SamplingSettings
    from lamina.translation import Translation, Translator

Format = Literal["text", "jsonl", "tsv", "moses"]
FormatIn = Literal["text", "html", "srt", "vtt"]
NOT_SAMPLED = ("beam", "diverse_groups", "diversity")  # settings that apply to beam search only


@with_search_options
def translate(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="Run or model; several form an ensemble.")],
    input_file: Annotated[
        Path | None, typer.Option("--input", help="Lines to translate (plain, .gz, .zst).", show_default="stdin")
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", help="Output file.", show_default="stdout")] = None,
    *,
    force: Force = False,
    search: dict[str, Any],
    nbest: Annotated[
        int, typer.Option("--nbest", min=1, max=256, help="Translations per line (jsonl, tsv, moses).")
    ] = 1,
    prefix: Annotated[
        Path | None, typer.Option("--prefix", help="File of prefixes that translations must start with, one per line.")
    ] = None,
    shallow: Annotated[
        Path | None,
        typer.Option("--shallow", help="Run that RUN was grown from; both rank the n-best list (shallow-deep)."),
    ] = None,
    sample: Annotated[bool, typer.Option("--sample", help="Sample instead of using beam search.")] = False,
    temperature: Annotated[
        float | None,
        typer.Option(
            "--temperature",
            min=0.0,
            max=100.0,
            help="With --sample: softmax temperature; 0 is greedy.",
            show_default="1.0",
        ),
    ] = None,
    top_k: Annotated[
        int | None, typer.Option("--top-k", min=1, help="With --sample: sample from the k most likely tokens.")
    ] = None,
    top_p: Annotated[
        float | None,
        typer.Option("--top-p", max=1.0, help="With --sample: nucleus sampling with this probability mass (above 0)."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, max=2**63 - 1, help="With --sample: random seed.", show_default="1")
    ] = None,
    form: Annotated[
        Format, typer.Option("--format", help="Output format; `text` is one line per input line.")
    ] = "text",
    format_in: Annotated[
        FormatIn | None,
        typer.Option(
            "--format-in",
            help="Translate a whole document sentence by sentence, keeping layout and markup.",
            show_default="lines",
        ),
    ] = None,
    alignments: Annotated[
        bool, typer.Option("--alignments", help="Add subword alignments to the output (jsonl).")
    ] = False,
    attention: Annotated[
        bool, typer.Option("--attention", help="Add the last layer's attention to the output (jsonl).")
    ] = False,
    checkpoint: Checkpoint = "best",
    int8: Int8 = False,
    shortlist: ShortlistFolder = None,
    buffer: Annotated[int, typer.Option("--buffer", min=1, help="Number of lines to read and batch at a time.")] = 2000,
    shard: Annotated[
        str | None,
        typer.Option("--shard", metavar="I/N", help="Translate shard I of N of the input to a file in --output DIR."),
    ] = None,
    shards: Annotated[
        int | None, typer.Option("--shards", min=1, help="With --cluster: number of shards, one job each.")
    ] = None,
    cluster: OnCluster = None,
    cluster_options: ClusterOptions = None,
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="With --cluster local: number of parallel jobs.")] = 1,
    device: Device = "auto",
    threads: Threads = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only translations and errors.")] = False,
) -> None:
    """Translate text: one output line per input line, in order; blank lines stay blank.

    [bold]Examples[/bold]

        lamina translate runs/first --input test.en --output test.out

        echo "A dog runs." | lamina translate runs/first --format jsonl --nbest 3

        lamina translate runs/a runs/b --input test.en

        lamina translate runs/first --input large.en --output parts --shard 3/100
    """
    from lamina.base.reading import read_lines
    from lamina.cli.progress import show_progress
    from lamina.cli.sharding import open_shard, translate_on_cluster
    from lamina.translation import load
    from lamina.translation.shallow_deep import ShallowDeep

    for run in runs:
        if run.is_file():
            raise UsageError(f"{run}: is a file, not a run or model. To translate it, use --input {run}.")
    if nbest > 1 and form == "text":
        raise UsageError("--nbest above 1 needs --format jsonl, tsv or moses.")
    if (alignments or attention) and form != "jsonl":
        raise UsageError("--alignments and --attention need --format jsonl.")
    if format_in is not None and (form != "text" or prefix is not None or shallow is not None):
        raise UsageError(
            "--format-in writes a document in the format of its input; omit --format, --prefix and --shallow."
        )
    if shallow is not None and (sample or prefix or alignments or attention):
        raise UsageError(
            "--shallow works only with plain beam search: omit --sample, --prefix, --attention and --alignments."
        )
    if cluster is None and (cluster_options or jobs > 1):
        raise UsageError(f"{'--cluster-option' if cluster_options else '--jobs'} requires --cluster.")
    sampling = sampling_settings(sample, temperature, top_k, top_p, seed, search, prefix)
    if cluster is not None or shards is not None:
        translate_on_cluster(input_file, output, cluster, cluster_options, shards, shard, jobs, threads, form, force)
        return
    first_line = 1
    if shard is None:
        check_output(output, (input_file, prefix), force)
        lines = read_lines(input_file)
    else:
        if prefix is not None or sample or format_in is not None:
            raise UsageError("--shard translates lines by beam search: omit --prefix, --sample and --format-in.")
        opened = open_shard(shard, input_file, output, form, force)
        if opened is None:
            return
        output, first_line, lines = opened
    translator = load(*runs, checkpoint=checkpoint, device=device, threads=threads, int8=int8, shortlist=shortlist)
    for note in () if quiet else translator.notes:
        print(f"lamina: {note}", file=sys.stderr)
    settings = translator.settings.with_options(**search)
    if format_in is not None:
        translate_document(translator, settings, sampling, format_in, input_file, output, quiet)
        return
    interactive = input_file is None and sys.stdin.isatty()
    if interactive and not quiet:
        source, written = translator.text.source.language, translator.text.target.language
        print(f"Ready ({source} → {written}): type a sentence and press Enter; Ctrl-D to quit.", file=sys.stderr)
    with ExitStack() as stack:
        target = sys.stdout if output is None else stack.enter_context(open_output(output))
        progress = stack.enter_context(show_progress(quiet or interactive or (output is None and sys.stdout.isatty())))
        sources: deque[str] = deque()
        if shallow is None:
            results = translator.stream(
                record(lines, sources),
                settings,
                nbest=nbest,
                prefixes=None if prefix is None else read_lines(prefix),
                sampling=sampling,
                attention=attention or alignments,
                window=1 if interactive else buffer,
            )
        else:
            other = load(shallow, device=device, threads=threads, int8=int8)
            results = ShallowDeep(translator, other).stream(record(lines, sources), settings, nbest)
        progress("translating", 0, None)
        for number, result in enumerate(results, start=first_line):
            source = sources.popleft()
            if result.cut:
                print(f"lamina: line {number}: truncated: {counted(result.cut, 'subword')} dropped.", file=sys.stderr)
            for line in render(form, number, source, result, attention, alignments):
                target.write(f"{line}\n")
            if output is None and (interactive or buffer == 1):
                sys.stdout.flush()
            progress("translating", number, None)


def translate_document(
    translator: Translator,
    settings: SearchSettings,
    sampling: SamplingSettings | None,
    form: FormatIn,
    input_file: Path | None,
    output: Path | None,
    quiet: bool,
) -> None:
    """Translate a whole document."""
    from lamina.base.reading import open_bytes
    from lamina.cli.progress import show_progress
    from lamina.translation.documents import read_document

    with open_bytes(input_file) as stream:
        content = stream.read()
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{input_file or 'stdin'}: not UTF-8 at byte {error.start}.") from error
    document = read_document(text, form, translator.text.source.language)
    sentences, texts = document.sentences, []
    with show_progress(quiet) as progress:
        for sentence, result in zip(sentences, translator.stream(sentences, settings, sampling=sampling), strict=True):
            if result.cut:
                lost = counted(result.cut, "subword")
                print(f"lamina: {sentence[:40]} …: truncated: {lost} dropped.", file=sys.stderr)
            texts.append(result.text)
            progress("translating", len(texts), len(sentences))
    written = document.render(texts)
    with ExitStack() as stack:
        target = sys.stdout if output is None else stack.enter_context(open_output(output))
        target.write(written)


def sampling_settings(
    sample: bool,
    temperature: float | None,
    top_k: int | None,
    top_p: float | None,
    seed: int | None,
    search: dict[str, Any],
    prefix: Path | None,
) -> SamplingSettings | None:
    """Return the sampling settings, if requested; raise if an option would have no effect."""
    options: dict[str, Any] = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    given = [name for name, value in options.items() if value is not None]
    if not sample:
        if given:
            raise UsageError(f"{flag(given[0])} requires --sample.")
        return None
    unused = [name for name in NOT_SAMPLED if search[name] is not None]
    if unused or prefix is not None:
        raise UsageError(f"{flag(unused[0]) if unused else '--prefix'} applies only to beam search; omit --sample.")
    from lamina.search.sampling import SamplingSettings

    return SamplingSettings(**{name: value for name, value in options.items() if value is not None})


def record(lines: Iterable[str], seen: deque[str]) -> Iterator[str]:
    """Yield lines and append each to `seen`."""
    for line in lines:
        seen.append(line)
        yield line


def render(
    form: Format, number: int, source: str, result: Translation, attention: bool, alignments: bool
) -> Iterator[str]:
    """Render the output lines of one translation."""
    nbest = result.nbest or [result]
    if form == "text":
        yield result.text
    elif form == "tsv":
        yield from (f"{number}\t{one.score:.6f}\t{one.text}" for one in nbest)
    elif form == "moses":
        yield from (f"{number - 1} ||| {one.text} ||| log_prob={one.log_prob:.6f} ||| {one.score:.6f}" for one in nbest)
    else:
        record: dict[str, Any] = {"line": number, "source": source, **fields(result)}
        record["nbest"] = [fields(one) for one in nbest]
        if result.cut:
            record["cut"] = result.cut
        if result.attention is not None and attention:
            record["attention"] = [[round(weight, 4) for weight in row] for row in result.attention.tolist()]
        if result.attention is not None and alignments:
            record["alignments"] = [
                f"{column}-{row}" for row, column in enumerate(result.attention.argmax(dim=1).tolist())
            ]
        yield json.dumps(record, ensure_ascii=False)


def fields(result: Translation) -> dict[str, Any]:
    """Fields of a translation in jsonl."""
    return {
        "text": result.text,
        "score": round(result.score, 6),
        "log_prob": round(result.log_prob, 6),
        "tokens": result.tokens,
    }
