"""`lamina noise`: pairs of text with synthetic errors and its correction, from clean text."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lamina.cli.outputs import Force, check_output, open_output
from lamina.errors import UsageError

if TYPE_CHECKING:
    from lamina.corpus.noise import ErrorSettings


def noise(
    input_file: Annotated[Path, typer.Option("--input", help="Clean text, one sentence per line (plain, .gz, .zst).")],
    output: Annotated[
        tuple[Path, Path],
        typer.Option("--output", metavar="SRC TGT", help="Output files: text with errors, clean text."),
    ],
    lang: Annotated[str, typer.Option("--lang", help="Language; en and uk have their own error tables.")] = "en",
    errors: Annotated[
        Path | None,
        typer.Option("--errors", help="Error rate (default: 0.12 of all words), mix and confusions (YAML)."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Random seed; the same seed gives the same errors.")] = 1,
    force: Force = False,
) -> None:
    """Add synthetic errors to clean text, to train a model for grammatical error correction.

    [bold]Examples[/bold]

        lamina noise --lang en --input clean.txt --output noisy.src noisy.tgt

        lamina noise --lang uk --input clean.txt.gz --output noisy.src noisy.tgt --errors errors.yaml --seed 2
    """
    from lamina.base.reading import read_lines
    from lamina.base.wording import counted, listed
    from lamina.cli.progress import show_progress
    from lamina.corpus.error_tables import TABLES
    from lamina.corpus.noise import Confusions, Noise

    for path in output:
        check_output(path, (input_file, errors), force)
    if output[0] == output[1]:
        raise UsageError(f"{output[0]}: given twice; each side needs its own file.")
    if lang not in TABLES:
        known = f"There are tables for {listed([f'`{each}`' for each in TABLES])}."
        print(
            f"No error table for `{lang}`: adding only errors that need none, such as typos. {known}", file=sys.stderr
        )
    settings = read_errors(errors)
    learned = None
    if settings.confusions is not None:
        assert errors is not None
        learned = Confusions.learn(errors.parent / settings.confusions)
    maker = Noise(lang, settings, seed, learned)
    changed = total = 0
    with show_progress() as progress, open_output(output[0]) as noisy, open_output(output[1]) as clean:
        for total, (noisy_line, clean_line) in enumerate(maker.pairs(read_lines(input_file)), start=1):
            noisy.write(f"{noisy_line}\n")
            clean.write(f"{clean_line}\n")
            changed += noisy_line != clean_line
            progress("adding errors", total, None)
    kinds = ", ".join(f"{kind} {count:,}" for kind, count in maker.made.most_common())
    print(f"Errors in {changed:,} of {counted(total, 'line')}: {kinds or 'none'}.", file=sys.stderr)


def read_errors(path: Path | None) -> ErrorSettings:
    """Read the error settings; all problems are reported together."""
    import yaml
    from pydantic import ValidationError

    from lamina.base.problems import describe_errors
    from lamina.base.yaml_files import explain_yaml_error, read_yaml
    from lamina.corpus.noise import ErrorSettings

    if path is None:
        return ErrorSettings()
    try:
        content = read_yaml(path.read_text(encoding="utf-8")) or {}
        return ErrorSettings.model_validate(content)
    except FileNotFoundError as error:
        raise UsageError(f"{path}: not found.") from error
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror}).") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(explain_yaml_error(path, error)) from error
    except ValidationError as error:
        problems = describe_errors(error, ErrorSettings, content)
        raise UsageError("\n".join(f"{path}: {problem}" for problem in problems)) from error
