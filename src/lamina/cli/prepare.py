"""`lamina prepare`: prepare raw parallel text for training."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from lamina.cli.next_step import say_next
from lamina.corpus.filters import Filters
from lamina.errors import UsageError

if TYPE_CHECKING:
    from lamina.corpus.m2 import M2File

TwoPaths = tuple[Path, Path]
UNNAMED = (("src", "tgt"), ("source", "target"))  # languages if neither suffixes nor --langs name them


def prepare(
    out: Annotated[Path, typer.Option("--out", help="Data folder to write.")],
    train: Annotated[
        TwoPaths | None,
        typer.Option("--train", metavar="SRC TGT", help="Training text: two parallel files (plain, .gz, .zst)."),
    ] = None,
    valid: Annotated[TwoPaths | None, typer.Option("--valid", metavar="SRC TGT", help="Validation text.")] = None,
    test: Annotated[TwoPaths | None, typer.Option("--test", metavar="SRC TGT", help="Test text.")] = None,
    train_pairs: Annotated[
        Path | None, typer.Option("--train-pairs", help="Training pairs in one file (.tsv or .jsonl).")
    ] = None,
    valid_pairs: Annotated[Path | None, typer.Option("--valid-pairs", help="Validation pairs in one file.")] = None,
    test_pairs: Annotated[Path | None, typer.Option("--test-pairs", help="Test pairs in one file.")] = None,
    train_m2: Annotated[
        Path | None, typer.Option("--train-m2", help="Training text with corrections (.m2), for GEC.")
    ] = None,
    valid_m2: Annotated[Path | None, typer.Option("--valid-m2", help="Validation text with corrections.")] = None,
    test_m2: Annotated[Path | None, typer.Option("--test-m2", help="Test text with corrections.")] = None,
    annotator: Annotated[
        int | None,
        typer.Option("--annotator", min=0, help="Use only this annotator's corrections (.m2).", show_default="all"),
    ] = None,
    fields: Annotated[
        tuple[str, str] | None,
        typer.Option("--fields", metavar="SRC TGT", help="Field names in .jsonl; default: `src` and `tgt`."),
    ] = None,
    line_breaks: Annotated[
        Literal["space", "symbol"],
        typer.Option("--line-breaks", help="Replace line breaks inside .jsonl fields with a space or the symbol ⏎."),
    ] = "space",
    sentences: Annotated[
        bool, typer.Option("--sentences", help="Keep sentence boundaries in the source (for the hierarchical encoder).")
    ] = False,
    max_source: Annotated[
        int | None, typer.Option("--max-source", min=2, help="Truncate sources to this many subwords.")
    ] = None,
    vocab_size: Annotated[
        int | None,
        typer.Option(
            "--vocab-size",
            min=5,
            max=1_000_000,
            help="Maximum vocabulary size; 8000 by default when learning subwords.",
            show_default=False,
        ),
    ] = None,
    subwords: Annotated[
        Literal["sentencepiece", "bpe", "none"],
        typer.Option("--subwords", help="`bpe` segments Moses tokens; `none` splits at spaces."),
    ] = "sentencepiece",
    bpe_codes: Annotated[
        Path | None,
        typer.Option(
            "--bpe-codes", help="Use these subword-nmt merges instead of learning them; implies --subwords bpe."
        ),
    ] = None,
    separate_vocab: Annotated[
        bool, typer.Option("--separate-vocab", help="Learn a separate vocabulary for each side.")
    ] = False,
    pretokenized: Annotated[bool, typer.Option("--pretokenized", help="The text is already tokenised (bpe).")] = False,
    lowercase: Annotated[
        bool, typer.Option("--lowercase", help="Let the subword model lowercase all text (sentencepiece).")
    ] = False,
    text_from: Annotated[
        Path | None,
        typer.Option("--text-from", help="Use the text pipeline of this data folder, run or model (for fine-tuning)."),
    ] = None,
    langs: Annotated[
        tuple[str, str] | None,
        typer.Option("--langs", metavar="SRC TGT", help="Language codes; default: the file suffixes."),
    ] = None,
    no_filter: Annotated[
        list[str] | None,
        typer.Option(
            "--no-filter",
            help="Filters to disable: empty, long, ratio, duplicate, or all; repeatable, or comma-separated.",
        ),
    ] = None,
    max_characters: Annotated[
        int, typer.Option("--max-characters", min=1, help="Drop pairs with a side longer than this (filter `long`).")
    ] = Filters.max_characters,
    max_ratio: Annotated[
        float,
        typer.Option(
            "--max-ratio", min=1.0, help="Drop pairs whose lengths differ by more than this factor (filter `ratio`)."
        ),
    ] = Filters.max_ratio,
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, max=1024, help="Number of processes.", show_default="all cores")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only errors.")] = False,
) -> None:
    """Turn raw parallel text into a data folder for training, with a report of what was dropped and why.

    After an interruption, rerun the same command to resume.

    [bold]Examples[/bold]

        lamina prepare --train train.en train.de --valid dev.en dev.de --out data

        lamina prepare --train-pairs a.jsonl --valid-pairs b.jsonl --fields body subject --no-filter ratio --out data

        lamina prepare --train tok.en tok.de --valid dev.en dev.de --pretokenized --bpe-codes codes --out data
    """
    from lamina.api.data import prepare as prepare_data
    from lamina.cli.progress import show_progress

    if fields is not None and not (train_pairs or valid_pairs or test_pairs):
        raise UsageError("--fields requires --train-pairs, --valid-pairs or --test-pairs.")
    if annotator is not None and not (train_m2 or valid_m2 or test_m2):
        raise UsageError("--annotator requires --train-m2, --valid-m2 or --test-m2.")
    has_test = test or test_pairs or test_m2
    before = time_of_completion(out)
    with show_progress(quiet) as progress:
        data = prepare_data(
            choose_pairs("train", train, train_pairs, train_m2, annotator),
            choose_pairs("valid", valid, valid_pairs, valid_m2, annotator),
            out,
            test=choose_pairs("test", test, test_pairs, test_m2, annotator) if has_test else None,
            fields=fields,
            annotator=annotator,
            line_breaks=line_breaks,
            sentences=sentences,
            max_source=max_source,
            vocab_size=vocab_size,
            subwords=subwords,
            bpe_codes=bpe_codes,
            separate_vocab=separate_vocab,
            pretokenized=pretokenized,
            lowercase=lowercase,
            text_from=text_from,
            langs=langs,
            no_filter=no_filter or (),
            max_characters=max_characters,
            max_ratio=max_ratio,
            workers=workers,
            progress=progress,
        )
    if not quiet and time_of_completion(out) == before:
        print(f"Already prepared: {out}. Its report is {out / 'report.md'}.")
    elif not quiet:
        print(data.report)
        print(f"Prepared: {out}")
    source, target = data.meta["plan"]["languages"]
    if not quiet and langs is None and text_from is None and (source, target) in UNNAMED:
        print(f"lamina: the languages are unknown (`{source}`, `{target}`); --langs names them.", file=sys.stderr)
    copies = (train_m2 is not None or source == target) and not separate_vocab
    system = "pointer-generator" if copies else "surface-fusion"
    say_next("lamina", "train", system, "--data", out, "--out", "runs/first", quiet=quiet)


def time_of_completion(out: Path) -> int | None:
    """When a data folder was completed; None if it is not complete."""
    from lamina.corpus.prepared import META

    return (out / META).stat().st_mtime_ns if (out / META).is_file() else None


def choose_pairs(
    split: str, two: TwoPaths | None, one: Path | None, m2: Path | None, annotator: int | None
) -> TwoPaths | Path | M2File:
    """Return the source of a split's pairs; exactly one of its options must be given."""
    from lamina.corpus.m2 import M2File

    if sum(option is not None for option in (two, one, m2)) != 1:
        raise UsageError(f"Give exactly one of --{split} SRC TGT, --{split}-pairs FILE or --{split}-m2 FILE.")
    if m2 is not None:
        return M2File(m2, None if annotator is None else str(annotator))
    return two or one or Path()
