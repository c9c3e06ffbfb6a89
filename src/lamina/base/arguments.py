"""Checks of arguments from Python, where the command line has typed options."""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterable, Mapping
from difflib import get_close_matches
from inspect import signature
from typing import Any, NoReturn

from lamina.errors import UsageError
from lamina.names import nearest

DEVICES = ("auto", "cpu", "cuda")


def reject(name: str, must: str, given: object) -> NoReturn:
    """Raise an error that says what an argument must be, and what it is."""
    text = repr(given)
    shown = text if len(text) <= 60 else type(given).__name__
    raise UsageError(f"{name} must be {must}, but is {shown} instead.")


def check_choice(name: str, given: object, choices: Iterable[str]) -> None:
    """Raise unless the argument is one of these strings."""
    known = list(choices)
    if given not in known:
        hint = nearest(given, known) if isinstance(given, str) else ""
        raise UsageError(f"{name} must be one of {', '.join(known)}, but is {given!r} instead.{hint}")


def check_counts(least: int = 1, /, **given: object) -> None:
    """Raise unless each argument is a whole number, at least `least`, or None."""
    for name, value in given.items():
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < least):
            reject(name, f"a whole number, at least {least}", value)


def check_path(name: str, given: object, must: str) -> None:
    """Raise unless the argument is a path."""
    if not isinstance(given, str | os.PathLike):
        reject(name, must, given)


def check_names(name: str, given: object) -> None:
    """Raise unless the argument is None or two names, such as two languages."""
    pair = isinstance(given, tuple | list) and len(given) == 2 and all(isinstance(each, str) for each in given)
    if given is not None and not pair:
        reject(name, "two names, such as ('en', 'de')", given)


def check_mapping(name: str, given: object, example: str) -> None:
    """Raise unless the argument is None or a mapping."""
    if given is not None and not isinstance(given, Mapping):
        reject(name, f"a mapping, such as {example}", given)


def check_options(given: Iterable[str], known: Container[str], function: Callable[..., Any]) -> None:
    """Raise if an unknown option of a function resembles one of its own arguments."""
    for name in given:
        match = get_close_matches(name, list(signature(function).parameters), n=1, cutoff=0.8)
        if name not in known and match:
            raise UsageError(f"{name}: not an argument. Did you mean `{match[0]}`?")


def as_list(given: Any) -> list[Any]:
    """The argument as a list; a string, a path or a single object is one element."""
    one = isinstance(given, str | os.PathLike) or not isinstance(given, Iterable)
    return [given] if one else list(given)
