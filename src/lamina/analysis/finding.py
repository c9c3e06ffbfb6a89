"""The result of an analysis: figures, a table and the underlying data."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any

from lamina.analysis.page import figure, folded, page, paragraph, section, side_by_side, table
from lamina.base.files import StrPath, write_file
from lamina.base.wording import counted
from lamina.errors import UsageError
from lamina.figures.figure import save_svg
from lamina.figures.tables import text_table

Cell = str | int | float
LONGEST_TABLE = 400  # rows on a page; the CSV file has all


@dataclass(frozen=True, repr=False)
class Picture:
    """An SVG with a file name and a caption; notebooks display it.

    Example:
        >>> picture = lamina.analyze.gradients("runs/first").pictures[0]
        >>> picture.title
        'first: final gradients differ by up to ...× between layers'
        >>> picture.save("gradients.svg")
        PosixPath('gradients.svg')
    """

    name: str
    svg: str
    caption: str
    detail: bool = False  # collapsed on pages

    @property
    def title(self) -> str:
        """The title that is drawn above the figure."""
        return unescape(self.svg.partition('aria-label="')[2].partition('"')[0])

    def save(self, path: StrPath) -> Path:
        """Write the SVG to a file and return its path."""
        return save_svg(self.svg, path)

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"Picture({self.name!r}, {self.caption!r})"


@dataclass(frozen=True, repr=False)
class Finding:
    """The result of an analysis of one or more runs; notebooks display it.

    Example:
        >>> finding = lamina.analyze.gradients("runs/first")
        >>> finding
        Finding('gradients', 1 picture, 2 rows)
        >>> [path.name for path in finding.write("figures")]
        ['gradients.html', 'gradients.json', 'gradients.csv', 'gradients-first.svg']
    """

    name: str
    title: str
    reading: str  # what the paper claims, and how to read the pictures
    pictures: Sequence[Picture]
    head: tuple[str, ...]
    rows: Sequence[tuple[Cell, ...]]
    data: dict[str, Any]

    def __str__(self) -> str:
        titles = [picture.title for picture in self.pictures if not picture.detail]
        return "\n".join([text_table([self.head, *self.texts(self.rows)]), "", *titles])

    def __repr__(self) -> str:
        pictures, rows = counted(len(self.pictures), "picture"), counted(len(self.rows), "row")
        return f"Finding({self.name!r}, {pictures}, {rows})"

    def _repr_html_(self) -> str:
        return self.as_section()

    def write(self, folder: StrPath) -> list[Path]:
        """Write NAME.html (the whole page), NAME.json, NAME.csv and the figures; return their paths."""
        folder = Path(folder)
        if folder.exists() and not folder.is_dir():
            raise UsageError(f"{folder}: is a file; choose a folder.")
        paths = self.paths(folder)
        folder.mkdir(parents=True, exist_ok=True)
        write_file(paths[0], page(self.title, [paragraph(self.reading), *self.parts()]))
        write_file(paths[1], json.dumps(self.data, indent=1, ensure_ascii=False) + "\n")
        rows = io.StringIO(newline="")
        csv.writer(rows).writerows([self.head, *self.rows])
        write_file(paths[2], rows.getvalue())
        for picture, path in zip(self.pictures, paths[3:], strict=True):
            write_file(path, picture.svg)
        return paths

    def paths(self, folder: Path) -> list[Path]:
        """The files that `write` creates in a folder."""
        names = [*(f"{self.name}.{kind}" for kind in ("html", "json", "csv")), *self._picture_names()]
        return [folder / name for name in names]

    def _picture_names(self) -> list[str]:
        return [f"{self.name}-{picture.name}.svg" for picture in self.pictures]

    def parts(self) -> list[str]:
        """HTML parts: the figures, then, collapsed, details and the table if it is short."""
        shown, details = (
            [figure(picture.svg, picture.caption) for picture in self.pictures if picture.detail is detail]
            for detail in (False, True)
        )
        parts = [side_by_side(shown)]
        if details:
            parts.append(folded(counted(len(details), "more figure"), side_by_side(details)))
        if 0 < len(self.rows) <= LONGEST_TABLE:
            parts.append(folded(f"Numbers ({counted(len(self.rows), 'row')})", table(self.head, self.texts(self.rows))))
        return parts

    def texts(self, rows: Sequence[tuple[Cell, ...]]) -> list[tuple[str, ...]]:
        """Rows as text; numbers have four significant digits."""
        return [tuple(f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in row) for row in rows]

    def as_section(self) -> str:
        """A section of a larger page."""
        return section(self.title, paragraph(self.reading, "soft"), *self.parts())


def label_runs(runs: Sequence[Path]) -> list[str]:
    """Shortest distinct names: each folder's name, with as many parents as necessary."""
    for depth in range(1, 8):
        names = ["/".join(run.resolve().parts[-depth:]) for run in runs]
        if len(set(names)) == len(names):
            return names
    return [str(run) for run in runs]


def file_name(label: str) -> str:
    """Convert a run's label to a part of a file name."""
    return "".join(letter if letter.isalnum() else "-" for letter in label).strip("-")
