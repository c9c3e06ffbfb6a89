"""Validation errors in readable form: key path, expected value, nearest name."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from lamina.base.settings import Settings
from lamina.errors import Problem
from lamina.names import in_lamina, nearest


def describe_errors(error: ValidationError, root: type[Settings], data: Any) -> list[Problem]:
    """One problem per error found when `data` was validated as `root`."""
    return [_describe(dict(item), root, data) for item in error.errors()]


def unknown_key(name: str, known: Collection[str], root: type[Settings], data: Any) -> str:
    """The message for a key that does not exist where it was given, but may exist elsewhere below `root`."""
    paths = [] if in_lamina(name) in known else [f"`{path}`" for path in _find(in_lamina(name), root, data)]
    return f"not an option. Did you mean {' or '.join(paths)}?" if paths else f"not an option.{nearest(name, known)}"


def _describe(item: dict[str, Any], root: type[Settings], data: Any) -> Problem:
    path = [str(part) for part in item["loc"] if "[" not in str(part)]  # without pydantic's names of a union's types
    kind, message = item["type"], item["msg"]
    if kind == "extra_forbidden":
        message = unknown_key(path[-1], _options(root, data, path[:-1]), root, data)
    elif kind == "missing":
        message = "is required."
        if path[-1].isdigit():  # an element of a pair
            path = path[:-1]
            message = f"must be {_example(root, data, path)}."
    elif kind == "literal_error":
        expected = item["ctx"]["expected"].replace("'", "`")
        message = f"must be {expected}, but is `{item['input']}` instead."
    elif kind == "model_type":
        message = f"must be a mapping, but is {item['input']!r} instead."
    elif kind == "string_pattern_mismatch":  # of names of runs, the only pattern
        message = f"must not start with a dot or contain a slash or backslash, but is {item['input']!r} instead."
    elif kind == "choice":  # our own: complete, and may name the key below
        path += [item["ctx"]["key"]] if "key" in item["ctx"] else []
    else:
        must = re.sub(r"^\w+ should", "must", re.split(" after validation|, got", message)[0])
        must = must.replace("a valid dictionary", "a mapping")
        if "a valid tuple" in must:
            must = must.replace("a valid tuple", _example(root, data, path))
        message = f"{must}, but is {item['input']!r} instead."
    return Problem(".".join(path), message)


def _options(root: type[Settings], data: Any, path: list[str]) -> list[str]:
    """The options that exist at a path."""
    settings = _settings(root, data, path)
    return settings.keys() if settings is not None else []


def _example(root: type[Settings], data: Any, path: list[str]) -> str:
    """What an option is that takes two numbers, with its default as an example."""
    settings = _settings(root, data, path[:-1])
    default = settings.model_fields[path[-1]].default if settings is not None else None
    example = f", such as [{', '.join(f'{each:g}' for each in default)}]" if isinstance(default, tuple) else ""
    meaning = settings.model_fields[path[-1]].description if settings is not None else None
    explained = f" ({meaning[0].lower()}{meaning[1:].rstrip('.')})" if meaning else ""
    return f"a list of two numbers{example}{explained}"


def _settings(root: type[Settings], data: Any, path: list[str]) -> type[Settings] | None:
    """The settings class at a path."""
    settings: type[Settings] | None = root
    for name in path:
        data = data.get(name) if isinstance(data, Mapping) else None
        settings = settings.part(name, data) if settings is not None else None
    return settings


def _find(name: str, settings: type[Settings], data: Any, prefix: str = "") -> Iterator[str]:
    """The paths of all options with this name, which may have several parts."""
    for key in _options(settings, data, []):
        path = f"{prefix}{key}"
        if f".{path}".endswith(f".{name}"):
            yield path
        value = data.get(key) if isinstance(data, Mapping) else None
        part = settings.part(key, value)
        if part is not None:
            yield from _find(name, part, value, f"{path}.")
