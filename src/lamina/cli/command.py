"""Command classes: missing values are found; the help shows flags without a value, and examples without indentation."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from typer.core import TyperCommand, TyperGroup

from lamina.cli.usage import MissingValueError


class Command(TyperCommand):
    """A command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        check_values(self.params, args)
        return super().parse_args(ctx, args)

    def get_params(self, ctx: Any) -> list[Any]:
        return without_values(super().get_params(ctx))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        with aligned_examples(self):
            super().format_help(ctx, formatter)


class Group(TyperGroup):
    """A command with subcommands."""

    def get_params(self, ctx: Any) -> list[Any]:
        return without_values(super().get_params(ctx))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        with aligned_examples(self):
            super().format_help(ctx, formatter)


def check_values(parameters: list[Any], words: list[str]) -> None:
    """Refuse an option in the place of another's value, as in `--train train.en --out data`; click accepts it."""
    options = {name: parameter for parameter in parameters for name in parameter.opts if name.startswith("--")}
    for place, word in enumerate(words):
        option = options.get(word)
        values = words[place + 1 : place + 1 + option.nargs] if option is not None and not option.is_flag else []
        if any(value in options for value in values):
            raise MissingValueError(word, "")


def without_values(parameters: list[Any]) -> list[Any]:
    """Remove the metavar of flags."""
    for parameter in parameters:
        if getattr(parameter, "is_flag", False) and parameter.metavar is None:
            parameter.metavar = ""
    return parameters


@contextmanager
def aligned_examples(command: Any) -> Iterator[None]:
    """Remove the indentation of examples, which typer keeps if a paragraph precedes their heading."""
    written = command.help
    command.help = re.sub(r"(?m)^    ", "", inspect.cleandoc(written or ""))
    try:
        yield
    finally:
        command.help = written
