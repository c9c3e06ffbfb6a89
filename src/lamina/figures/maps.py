"""Heat maps of matrices as SVG text: attention, layer weights, norms over time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from lamina.figures.axes import Axis
from lamina.figures.colours import AROUND_ZERO, RISING, is_dark, ramp
from lamina.figures.svg import LETTER, WIDTH, colour_bar, picture, rectangle, text

TOP, RIGHT = 10, 98
NARROWEST, WIDEST = 22.0, 64.0  # column widths
TALLEST = 720  # total height of all rows, unless rows would get too thin


@dataclass(frozen=True)
class Labels:
    """Tick labels of rows and columns, and titles of both axes and of the values."""

    rows: Sequence[str]
    columns: Sequence[str]
    row: str
    column: str
    value: str


def heat_map(
    values: Sequence[Sequence[float]],
    labels: Labels,
    *,
    around_zero: bool = False,
    log: bool = False,
    full: float = 0.0,
    title: str = "",
) -> str:
    """Draw a cell per value, with its number if there is room. The colour scale spans 0 to at least `full`."""
    anchors: tuple[str, ...]
    flat = [value for row in values for value in row if _is_drawable(value, log)]
    if around_zero:
        largest = max(map(abs, flat), default=0.0) or 1.0
        scale, anchors = Axis(labels.value, -largest, largest), AROUND_ZERO
    else:
        scale, anchors = Axis.over(labels.value, [*flat, *([full] if full else [])], log=log, zero=not log), RISING
    left = 40 + LETTER * _longest(labels.rows)
    cell_width = min(WIDEST, max(NARROWEST, (WIDTH - left - RIGHT) / max(1, len(labels.columns))))
    cell_height = max(4.0, min(28.0, max(20.0, cell_width), TALLEST / max(1, len(labels.rows))))
    floor = TOP + cell_height * len(labels.rows)
    width = left + cell_width * len(labels.columns) + RIGHT
    parts = _cells(values, labels, (left, cell_width, cell_height), scale, anchors)
    named = range(0, len(labels.rows), max(1, math.ceil(16 / cell_height)))
    parts.extend(text(left - 6, TOP + (r + 0.5) * cell_height + 5, labels.rows[r], "end") for r in named)
    slanted = LETTER * _longest(labels.columns) + 4 > cell_width and any(not name.isdigit() for name in labels.columns)
    label_space = 17.0 if slanted else LETTER * _longest(labels.columns) + 8
    for c in range(0, len(labels.columns), max(1, math.ceil(label_space / cell_width))):
        x = left + (c + 0.5) * cell_width
        name = labels.columns[c]
        parts.append(text(x + 5, floor + 14, name, "end", turn=-45) if slanted else text(x, floor + 19, name))
    height = floor + (0.71 * LETTER * _longest(labels.columns) + 50 if slanted else 50)
    parts.append(text(left + cell_width * len(labels.columns) / 2, height - 8, labels.column))
    parts.append(text(13, (TOP + floor) / 2, labels.row, turn=-90))
    parts.extend(colour_bar(scale, anchors, max(floor - TOP, 80.0), width))
    return picture(parts, max(height, 120.0), width, title)


def _cells(
    values: Sequence[Sequence[float]],
    labels: Labels,
    sizes: tuple[float, float, float],
    scale: Axis,
    anchors: tuple[str, ...],
) -> list[str]:
    left, cell_width, cell_height = sizes
    parts: list[str] = []
    for r, row in enumerate(values):
        for c, value in enumerate(row):
            if not _is_drawable(value, scale.log):
                continue
            colour = ramp(anchors, scale.share(value))
            x, y = left + c * cell_width, TOP + r * cell_height
            hint = f"{labels.rows[r]}, {labels.columns[c]}: {value:.4g}"
            parts.append(rectangle(x, y, cell_width + 0.3, cell_height + 0.3, colour, hint))
            number = cell_text(value, scale)
            if cell_width >= LETTER * len(number) + 4 and cell_height >= 18 and number:
                ink = "#fff" if is_dark(colour) else "#000"
                parts.append(text(x + cell_width / 2, y + cell_height / 2 + 5, number, ink=ink))
    return parts


def cell_text(value: float, scale: Axis) -> str:
    """Format a value with two digits relative to the largest; empty if negligible."""
    largest = max(abs(scale.low), abs(scale.high))
    if abs(value) < 0.005 * largest:
        return ""
    return f"{value:.{max(0, 1 - math.floor(math.log10(0.999 * largest)))}f}" if not scale.log else f"{value:.1g}"


def _is_drawable(value: float, log: bool) -> bool:
    return math.isfinite(value) and (value > 0 or not log)


def _longest(names: Sequence[str]) -> int:
    return max(map(len, names), default=1)
