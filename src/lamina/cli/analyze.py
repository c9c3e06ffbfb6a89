"""`lamina analyze`: the papers' figures from runs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lamina.cli.command import Command, Group
from lamina.cli.options import Checkpoint
from lamina.cli.outputs import Force, check_page

if TYPE_CHECKING:
    from lamina.analysis.finding import Finding

analyze = typer.Typer(cls=Group, no_args_is_help=True)

Runs = Annotated[list[Path], typer.Argument(metavar="RUN", help="Runs to compare.")]
OneRun = Annotated[Path, typer.Argument(metavar="RUN", help="Run or model.")]
Test = Annotated[tuple[Path, Path], typer.Option("--test", metavar="SRC TGT", help="Test set: two parallel files.")]
Out = Annotated[Path | None, typer.Option("--out", help="Output folder.", show_default="RUN/analysis")]


@analyze.callback()
def choose() -> None:
    """Draw figures from runs, such as those of Wei et al. (2020) and Liu et al. (2021), with the underlying numbers.

    [bold]Examples[/bold]

        lamina analyze gradients runs/plain runs/msc

        lamina analyze report runs/plain runs/msc --test test.en test.de
    """


@analyze.command("gradients", cls=Command)
def gradients(runs: Runs, out: Out = None, force: Force = False) -> None:
    """Gradient norm of every encoder layer over training (Wei et al. 2020, Figure 5).

    [bold]Example[/bold]

        lamina analyze gradients runs/plain runs/msc
    """
    from lamina.analysis.gradients import analyze_gradients

    finish(analyze_gradients(runs), runs, out, force)


@analyze.command("degradation", cls=Command)
def degradation(
    runs: Runs,
    data: Annotated[Path, typer.Option("--data", help="Data folder that the runs were trained on.")],
    sentences: Annotated[
        int, typer.Option("--sentences", min=1, help="Number of training and of validation pairs to decode.")
    ] = 500,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Random seed for sampling training pairs.")] = 1,
    out: Out = None,
    force: Force = False,
) -> None:
    """BLEU and loss on training and validation pairs by depth (Wei et al. 2020, Figure 2).

    [bold]Example[/bold]

        lamina analyze degradation runs/plain-4 runs/plain-24 runs/msc-24 --data data
    """
    from lamina.analysis.degradation import analyze_degradation
    from lamina.cli.progress import show_progress

    with show_progress() as progress:
        finding = analyze_degradation(runs, data, sentences, seed, progress)
    finish(finding, runs, out, force)


@analyze.command("difficulty", cls=Command)
def difficulty(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN", help="Runs to compare; the first run's checkpoints define difficulty."),
    ],
    test: Test,
    checkpoints: Annotated[
        int, typer.Option("--checkpoints", min=1, help="Number of most recent checkpoints to use.")
    ] = 5,
    out: Out = None,
    force: Force = False,
) -> None:
    """BLEU from simple to challenging sentences (Wei et al. 2020, Eqs. 14–15, Figure 3).

    [bold]Example[/bold]

        lamina analyze difficulty runs/plain runs/msc --checkpoints 5 --test test.en test.de
    """
    from lamina.analysis.difficulty import analyze_difficulty, part_paths, write_parts
    from lamina.cli.progress import show_progress

    folder = out or runs[0] / "analysis"
    check_page(folder / "difficulty.html", part_paths(folder), test, force)
    sources, references = read_test(test, runs[0])
    with show_progress() as progress:
        finding, parts = analyze_difficulty(runs, checkpoints, sources, references, progress)
    finish(finding, runs, out, force, test)
    write_parts(folder, parts, sources, references)


@analyze.command("attention", cls=Command)
def attention(
    run: OneRun,
    source: Annotated[str, typer.Option("--source", help="Source sentence.")],
    target: Annotated[
        str | None, typer.Option("--target", help="Target sentence.", show_default="the model's translation")
    ] = None,
    checkpoint: Checkpoint = "best",
    out: Out = None,
    force: Force = False,
) -> None:
    """Attention maps: every layer, the top layer's heads, both streams of MSC, the surface reader.

    [bold]Example[/bold]

        lamina analyze attention runs/first --source "A dog runs."
    """
    from lamina.analysis.attention import analyze_attention

    finish(analyze_attention(run, source, target, checkpoint), [run], out, force)


@analyze.command("layers", cls=Command)
def layers(
    run: OneRun,
    test: Annotated[
        tuple[Path, Path] | None, typer.Option("--test", metavar="SRC TGT", help="Text to average gates over.")
    ] = None,
    sentences: Annotated[int, typer.Option("--sentences", min=1, help="Number of sentences to average over.")] = 200,
    checkpoint: Checkpoint = "best",
    out: Out = None,
    force: Force = False,
) -> None:
    """Learned layer weights and gates (Liu et al. 2021, Figure 1).

    [bold]Examples[/bold]

        lamina analyze layers runs/fine-grained

        lamina analyze layers runs/msc --test test.en test.de
    """
    from lamina.analysis.layers import analyze_layers

    pairs = list(zip(*read_test(test, run), strict=True))[:sentences] if test else []
    finish(analyze_layers(run, pairs, checkpoint), [run], out, force)


@analyze.command("masking", cls=Command)
def masking(run: OneRun, test: Test, checkpoint: Checkpoint = "best", out: Out = None, force: Force = False) -> None:
    """Effect of masking each encoder layer in turn on BLEU and output length (Liu et al. 2021, Figure 2).

    [bold]Example[/bold]

        lamina analyze masking runs/fine-grained --test test.en test.de
    """
    from lamina.analysis.masking import analyze_masking
    from lamina.cli.progress import show_progress

    with show_progress() as progress:
        finding = analyze_masking(run, *read_test(test, run), checkpoint, progress)
    finish(finding, [run], out, force)


@analyze.command("embeddings", cls=Command)
def embeddings(
    runs: Runs,
    pairs: Annotated[
        tuple[Path, Path],
        typer.Option(
            "--pairs",
            metavar="SRC TGT",
            help="Parallel text or, with --dictionary, words and their translations.",
        ),
    ],
    dictionary: Annotated[
        bool, typer.Option("--dictionary", help="Treat each line as a word and its translation; skip alignment.")
    ] = False,
    out: Out = None,
    force: Force = False,
) -> None:
    """Cosine similarity of aligned source and target embeddings, and the spectrum of the target matrix.

    [bold]Example[/bold]

        lamina analyze embeddings runs/plain runs/fused --pairs dev.en dev.de
    """
    from lamina.analysis.embeddings import analyze_embeddings

    lines = list(zip(*read_test(pairs, runs[0]), strict=True))
    finish(analyze_embeddings(runs, lines, dictionary=dictionary), runs, out, force)


@analyze.command("report", cls=Command)
def report(
    runs: Runs,
    test: Annotated[
        tuple[Path, Path] | None,
        typer.Option("--test", metavar="SRC TGT", help="Test set for scores, examples and attention maps."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Output file (HTML).", show_default="RUN/report.html")
    ] = None,
    force: Force = False,
) -> None:
    """One page with everything that applies: curves, scores, figures, examples, recipes.

    [bold]Example[/bold]

        lamina analyze report runs/plain runs/msc --test test.en test.de
    """
    from lamina.analysis.report import write_report
    from lamina.cli.progress import show_progress

    path = out or runs[0] / "report.html"
    check_page(path, (), [*(test or ()), *(run / "recipe.yaml" for run in runs)], force)
    with show_progress() as progress:
        write_report(path, runs, read_test(test, runs[0]) if test else None, progress)
    print(path)


def read_test(test: tuple[Path, Path], run: Path) -> tuple[list[str], list[str]]:
    """Read both sides of a test set, which must have the direction of the run."""
    from lamina.corpus.sources import read_pairs
    from lamina.scoring.evaluation import languages_of

    return read_pairs(test, "test set", languages_of(run))


def finish(finding: Finding, runs: list[Path], out: Path | None, force: bool, inputs: Sequence[Path] = ()) -> None:
    """Write all files, print the table and the path of the page."""
    from lamina.cli.tables import print_columns

    folder = out or runs[0] / "analysis"
    page, *others = finding.paths(folder)
    check_page(page, others, inputs, force)
    paths = finding.write(folder)
    print_columns([finding.head, *finding.texts(finding.rows)])
    for picture in finding.pictures:
        if not picture.detail:
            print(picture.title, file=sys.stderr)
    print(f"Page: {paths[0]}", file=sys.stderr)
