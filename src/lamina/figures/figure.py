"""A figure for notebooks and files."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from lamina.base.files import write_file
from lamina.errors import UsageError


def save_svg(svg: str, path: str | os.PathLike[str]) -> Path:
    """Write an SVG to a file, creating its folder if necessary; return the path."""
    file = Path(path)
    if file.suffix != ".svg":
        raise UsageError(f"{file}: figures are SVG; choose a name that ends with .svg.")
    file.parent.mkdir(parents=True, exist_ok=True)
    write_file(file, svg)
    return file


@dataclass(frozen=True)
class Figure:
    """An SVG figure: notebooks display it, and `save` writes it to a file."""

    svg: str
    title: str = ""

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the SVG to a file and return its path."""
        return save_svg(self.svg, path)

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"Figure({self.title!r}, {len(self.svg):,} characters of SVG)"
