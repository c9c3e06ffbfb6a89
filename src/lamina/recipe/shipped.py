"""The shipped recipes: commented YAML files, each with a header on how to run it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from importlib.resources.abc import Traversable
from itertools import takewhile
from pathlib import Path
from typing import Any

import yaml

from lamina.errors import UsageError
from lamina.names import nearest
from lamina.systems.published import SYSTEMS

SUFFIX = ".yaml"
HINT = "`lamina recipes` lists all recipes."


@dataclass(frozen=True)
class ShippedRecipe:
    """A recipe of the package."""

    name: str

    @property
    def file(self) -> Traversable:
        return folder() / f"{self.name}{SUFFIX}"

    @cached_property
    def text(self) -> str:
        return self.file.read_text(encoding="utf-8")

    @property
    def summary(self) -> str:
        """The first comment line."""
        return self.text.partition("\n")[0].removeprefix("# ")

    @cached_property
    def head(self) -> dict[str, str]:
        """The `# Key: value` lines below the summary; an indented line continues the value above it."""
        facts: dict[str, str] = {}
        for line in takewhile(lambda line: line.startswith("#"), self.text.splitlines()[1:]):
            fact = re.fullmatch(r"# ([A-Z][\w ]*): +(.*)", line)
            if fact is not None:
                key, facts[key] = fact[1], fact[2]
            elif facts and line.startswith("#  "):
                facts[key] = " ".join([facts[key].removesuffix("\\").rstrip(), line[1:].strip()])
        return facts

    @cached_property
    def content(self) -> dict[str, Any]:
        """The parsed recipe."""
        return dict(yaml.safe_load(self.text))


def folder() -> Traversable:
    """The package's folder of recipes."""
    return files("lamina") / "recipes"


def shipped_names() -> list[str]:
    """Names of all shipped recipes in natural order: 6 layers before 36."""
    names = (file.name.removesuffix(SUFFIX) for file in folder().iterdir() if file.name.endswith(SUFFIX))
    return sorted(names, key=lambda name: re.sub(r"\d+", lambda number: number[0].zfill(4), name))


def shipped_recipe(name: str) -> ShippedRecipe:
    """Look up a shipped recipe by name."""
    names = shipped_names()
    if name not in names:
        raise UsageError(f"Unknown recipe `{name}`.{nearest(name, names)} {HINT}")
    return ShippedRecipe(name)


def find_recipe(given: Path) -> Traversable:
    """Find a recipe file, or else the shipped recipe of that name."""
    if given.exists() and not given.is_dir():
        return given
    names = shipped_names()
    if str(given) in names:
        return ShippedRecipe(str(given)).file
    known = [*names, *SYSTEMS]
    raise UsageError(
        f"{given}: neither a file nor the name of a system or shipped recipe.{nearest(given.stem, known)} "
        "`lamina systems` and `lamina recipes` list them."
    )
