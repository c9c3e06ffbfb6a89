"""A figure for notebooks and files."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from lamina.base.files import write_file


@dataclass(frozen=True)
class Figure:
    """An SVG figure: notebooks display it, and `save` writes it to a file."""

    svg: str
    title: str = ""

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the SVG to a file and return its path."""
        write_file(Path(path), self.svg)
        return Path(path)

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"Figure({self.title!r}, {len(self.svg):,} characters of SVG)"
