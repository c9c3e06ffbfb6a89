"""Commands whose help shows switches without a value."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperGroup


class Command(TyperCommand):
    """A verb."""

    def get_params(self, ctx: Any) -> list[Any]:
        return without_values(super().get_params(ctx))


class Group(TyperGroup):
    """A verb with verbs below it."""

    def get_params(self, ctx: Any) -> list[Any]:
        return without_values(super().get_params(ctx))


def without_values(parameters: list[Any]) -> list[Any]:
    """A switch has no value to name."""
    for parameter in parameters:
        if getattr(parameter, "is_flag", False) and parameter.metavar is None:
            parameter.metavar = ""
    return parameters
