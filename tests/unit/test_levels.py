"""Packages import downwards only, eagerly and lazily: `docs/architecture.md` draws the levels."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import lamina

ROOT = Path(lamina.__file__).parent
LEVELS = (
    *(
        "version",
        "errors",
        "names",
        "base",
        "figures",
        "text",
        "corpus",
        "model",
        "systems",
        "recipe",
        "recipes",
        "store",
    ),
    *("search", "engine", "translation", "scoring", "training", "analysis", "study", "interop", "serving"),
    *("demo", "bench", "doctor", "api", "cli", "__main__"),
)


@cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imported_modules(tree: ast.AST) -> Iterator[str]:
    """All Lamina modules that a file imports, including within functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == "lamina":
            yield from (f"lamina.{alias.name}" for alias in node.names) if node.module == "lamina" else (node.module,)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.partition(".")[0] == "lamina")


def level(module: str) -> int:
    return LEVELS.index(module.split(".")[1])


@pytest.mark.parametrize(
    "package", sorted({path.relative_to(ROOT).parts[0] for path in ROOT.rglob("*.py")} - {"__init__.py"})
)
def test_a_package_imports_only_lower_levels(package: str) -> None:
    own = level(f"lamina.{package.removesuffix('.py')}")
    files = [ROOT / package] if package.endswith(".py") else sorted((ROOT / package).rglob("*.py"))
    upwards = [
        f"{path.relative_to(ROOT)} imports {module}"
        for path in files
        for module in imported_modules(parse(path))
        if level(module) > own
    ]
    assert upwards == []


def test_only_the_command_line_imports_rich() -> None:
    users = [path for path in ROOT.rglob("*.py") if "from rich" in path.read_text(encoding="utf-8")]
    assert {path.relative_to(ROOT).parts[0] for path in users} == {"cli"}


def test_no_two_classes_share_a_name() -> None:
    names = [
        node.name for path in ROOT.rglob("*.py") for node in ast.walk(parse(path)) if isinstance(node, ast.ClassDef)
    ]
    assert sorted(names) == sorted(set(names))


def test_files_and_functions_are_short() -> None:
    """At most 350 lines per file, except word lists, and 60 per function outside the command line."""
    for path in ROOT.rglob("*.py"):
        if path.name != "verbs.py":  # the demo grammar's table of verbs
            assert path.read_text(encoding="utf-8").count("\n") <= 350, path
        if path.relative_to(ROOT).parts[0] != "cli":  # mostly options and examples
            for node in ast.walk(parse(path)):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
                    assert node.end_lineno - node.lineno < 60, f"{path}: {node.name}"
