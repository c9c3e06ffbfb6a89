"""The command line: `lamina COMMAND …`. Each command is a thin module: parse, call the library, print."""

from __future__ import annotations

import errno
import io
import os
import re
import sys
import traceback
from pathlib import Path
from typing import Annotated

import typer

from lamina.base.onednn import limit_instructions
from lamina.base.threads import limit_spinning
from lamina.cli.analyze import analyze
from lamina.cli.average import average
from lamina.cli.bench import bench
from lamina.cli.command import Command, Group
from lamina.cli.compare import compare
from lamina.cli.demo import demo
from lamina.cli.distill import distill
from lamina.cli.doctor import doctor
from lamina.cli.edits import edits
from lamina.cli.evaluate import evaluate
from lamina.cli.export import export
from lamina.cli.import_fairseq import import_fairseq
from lamina.cli.import_marian import import_marian
from lamina.cli.noise import noise
from lamina.cli.prepare import prepare
from lamina.cli.push import push
from lamina.cli.recipes import recipes
from lamina.cli.rescore import rescore
from lamina.cli.score import score
from lamina.cli.serve import serve
from lamina.cli.shortlist import shortlist
from lamina.cli.status import show_loading
from lamina.cli.study import study
from lamina.cli.systems import systems
from lamina.cli.train import train
from lamina.cli.translate import translate
from lamina.cli.usage import CommandLineError, explain
from lamina.errors import DataError, LaminaError, UsageError
from lamina.names import naming_flags
from lamina.version import __version__

BROKEN_PIPE = 141  # exit code of a shell after SIGPIPE
MEMORY_ADVICE = "out of memory. Lower train.batch_tokens, --beam, --buffer or the model size."
OUT_OF_MEMORY = re.compile("can't allocate memory|not enough memory|out of memory", re.IGNORECASE)

app = typer.Typer(
    name="lamina",
    cls=Group,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.command("demo", cls=Command)(demo)
app.command("prepare", cls=Command)(prepare)
app.command("train", cls=Command)(train)
app.command("translate", cls=Command)(translate)
app.command("rescore", cls=Command)(rescore)
app.command("eval", cls=Command)(evaluate)
app.command("average", cls=Command)(average)
app.command("score", cls=Command)(score)
app.command("compare", cls=Command)(compare)
app.command("noise", cls=Command)(noise)
app.command("edits", cls=Command)(edits)
app.command("export", cls=Command)(export)
app.command("push", cls=Command)(push)
app.command("serve", cls=Command)(serve)
app.command("shortlist", cls=Command)(shortlist)
app.command("study", cls=Command)(study)
app.command("distill", cls=Command)(distill)
app.command("systems", cls=Command)(systems)
app.command("import-fairseq", cls=Command)(import_fairseq)
app.command("import-marian", cls=Command)(import_marian)
app.command("doctor", cls=Command)(doctor)
app.add_typer(recipes, name="recipes")
app.add_typer(analyze, name="analyze")
app.add_typer(bench, name="bench")


def show_version(requested: bool) -> None:
    """Print the version and exit."""
    if requested:
        print(f"lamina {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback on errors.")] = False,
) -> None:
    """Train, analyse and serve sequence-to-sequence models whose decoder can read every encoder layer.

    [bold]Examples[/bold]

        lamina prepare --train train.en train.de --valid dev.en dev.de --out data

        lamina train recipe.yaml --data data --out runs/first

        lamina translate runs/first --input test.en --output test.out
    """


def use_utf8() -> None:
    """Use UTF-8 regardless of the locale, with any bytes in paths; closed streams are replaced by the null device."""
    for name in ("stdin", "stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("r" if name == "stdin" else "w", encoding="utf-8"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="surrogateescape")


def main() -> None:
    """Run a command; errors give one or two lines and an exit code, and a traceback only with `--debug`."""
    use_utf8()
    limit_spinning()
    limited = limit_instructions()
    if limited:
        print(f"lamina: {limited}", file=sys.stderr)
    debug = "--debug" in sys.argv[1:]
    sys.argv[1:] = [argument for argument in sys.argv[1:] if argument != "--debug"] or ["--help"]
    try:
        with naming_flags(), show_loading(f"{' '.join(['lamina', *sys.argv[1:2]])}: loading …"):
            code = app(prog_name="lamina", standalone_mode=False)
    except SystemExit:
        if type(sys.stdout).__name__ == "PacifyFlushWrapper":  # click caught a broken pipe
            sys.exit(BROKEN_PIPE)
        raise
    except BrokenPipeError:  # the reader closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(BROKEN_PIPE)
    except Exception as error:
        if debug:
            traceback.print_exc()
        if isinstance(error, CommandLineError):
            print(explain(error, typer.main.get_command(app), sys.argv[1:]), file=sys.stderr)
            sys.exit(UsageError.exit_code)
        if isinstance(error, LaminaError):
            print(f"lamina: {error}", file=sys.stderr)
            sys.exit(error.exit_code)
        if isinstance(error, OSError):
            full = error.errno == errno.ENOSPC  # files that are written are named
            place = error.filename or ("stdout" if full else None)
            print(f"lamina: {f'{place}: ' if place else ''}{error.strerror}.", file=sys.stderr)
            sys.exit(DataError.exit_code)
        if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and OUT_OF_MEMORY.search(str(error))):
            print(f"lamina: {MEMORY_ADVICE}", file=sys.stderr)
            sys.exit(1)
        print(f"lamina: unexpected {type(error).__name__}: {error} (`--debug` shows where)", file=sys.stderr)
        sys.exit(1)
    sys.exit(code)
