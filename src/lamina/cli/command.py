"""Command classes whose help shows flags without a value, and examples without indentation."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from typer.core import TyperCommand, TyperGroup


class Command(TyperCommand):
    """A command."""

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
