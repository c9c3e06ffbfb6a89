"""`lamina edits`: the edits of a correction as .m2, as a readable diff or as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from lamina.cli.outputs import Force, check_output, open_output

if TYPE_CHECKING:
    from lamina.corpus.m2_format import Edit, Words


def edits(
    source: Annotated[
        Path, typer.Option("--source", help="Uncorrected text, one sentence per line; words are separated at spaces.")
    ],
    hypothesis: Annotated[Path, typer.Option("--hyp", help="Corrected text, parallel to --source.")],
    form: Annotated[
        Literal["m2", "diff", "jsonl"],
        typer.Option("--format", help="`diff` is human-readable, with colours in a terminal."),
    ] = "m2",
    output: Annotated[Path | None, typer.Option("--output", help="Output file.", show_default="stdout")] = None,
    force: Force = False,
) -> None:
    """Write the edits that turn one text into another.

    [bold]Examples[/bold]

        lamina edits --source dev.src --hyp corrected.txt --format diff

        lamina edits --source train.src --hyp train.tgt --output train.m2
    """
    from lamina.corpus.edits import find_edits
    from lamina.corpus.reading import TwoFiles

    check_output(output, (source, hypothesis), force)
    with ExitStack() as stack:
        target = sys.stdout if output is None else stack.enter_context(open_output(output))
        coloured = output is None and sys.stdout.isatty()
        for number, pair in enumerate(TwoFiles(source, hypothesis).pairs(), start=1):
            words, corrected = (tuple(line.split()) for line in pair)
            for line in render(form, number, words, find_edits(words, corrected), coloured):
                target.write(f"{line}\n")


def render(form: str, number: int, words: Words, found: list[Edit], coloured: bool) -> Iterator[str]:
    """Render one sentence; a diff omits sentences without edits."""
    from lamina.corpus.m2_format import write_m2

    if form == "m2":
        yield from write_m2(words, found)
    elif form == "jsonl":
        edits = [
            {"start": each.start, "end": each.end, "words": words[each.start : each.end], "correction": correction}
            for each in found
            for correction in each.corrections
        ]
        yield json.dumps({"line": number, "source": " ".join(words), "edits": edits}, ensure_ascii=False)
    elif found:
        yield f"{number}: {draw_diff(words, found, coloured)}"


def draw_diff(words: Words, found: list[Edit], coloured: bool) -> str:
    """Mark removals and insertions in place, in red and green or with brackets."""
    from rich.console import Console
    from rich.text import Text

    text, position = Text(), 0
    for edit in found:
        text.append("".join(f"{word} " for word in words[position : edit.start]))
        removed, added = " ".join(words[edit.start : edit.end]), " ".join(edit.corrections[0])
        if removed:
            text.append(f"[-{removed}-] ", "red strike")
        if added:
            text.append(f"{{+{added}+}} ", "green")
        position = edit.end
    text.append(" ".join(words[position:]))
    if not coloured:
        return text.plain.rstrip()
    console = Console()
    with console.capture() as captured:
        console.print(text, soft_wrap=True, end="")
    return captured.get()
