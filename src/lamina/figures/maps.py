"""Coloured maps of matrices as SVG text: attention, layer weights, norms over time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from lamina.figures.axes import Axis
from lamina.figures.colours import AROUND_ZERO, RISING, is_dark, ramp
from lamina.figures.svg import LETTER, WIDTH, colour_bar, picture, rectangle, text

TOP, RIGHT = 10, 98
NARROWEST, WIDEST = 22.0, 64.0  # columns
TALLEST = 720  # of all rows together, where that leaves each a few pixels


@dataclass(frozen=True)
class Labels:
    """The names of a map's rows and columns, and what these and its values are."""

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
    """A cell for each value, with its number where there is room. Colours start at 0 and reach `full` at least."""
    anchors: tuple[str, ...]
    flat = [value for row in values for value in row if _there(value, log)]
    if around_zero:
        most = max(map(abs, flat), default=0.0) or 1.0
        scale, anchors = Axis(labels.value, -most, most), AROUND_ZERO
    else:
        scale, anchors = Axis.over(labels.value, [*flat, *([full] if full else [])], log=log, zero=not log), RISING
    left = 36 + LETTER * _longest(labels.rows)
    wide = min(WIDEST, max(NARROWEST, (WIDTH - left - RIGHT) / max(1, len(labels.columns))))
    tall = max(4.0, min(28.0, max(20.0, wide), TALLEST / max(1, len(labels.rows))))
    floor = TOP + tall * len(labels.rows)
    width = left + wide * len(labels.columns) + RIGHT
    parts = _cells(values, labels, (left, wide, tall), scale, anchors)
    named = range(0, len(labels.rows), max(1, math.ceil(16 / tall)))
    parts.extend(text(left - 6, TOP + (r + 0.5) * tall + 5, labels.rows[r], "end") for r in named)
    slanted = LETTER * _longest(labels.columns) + 4 > wide and any(not name.isdigit() for name in labels.columns)
    needed = 17.0 if slanted else LETTER * _longest(labels.columns) + 8
    for c in range(0, len(labels.columns), max(1, math.ceil(needed / wide))):
        x = left + (c + 0.5) * wide
        name = labels.columns[c]
        parts.append(text(x + 5, floor + 14, name, "end", turn=-45) if slanted else text(x, floor + 19, name))
    height = floor + (0.71 * LETTER * _longest(labels.columns) + 50 if slanted else 50)
    parts.append(text(left + wide * len(labels.columns) / 2, height - 8, labels.column))
    parts.append(text(15, (TOP + floor) / 2, labels.row, turn=-90))
    parts.extend(colour_bar(scale, anchors, max(floor - TOP, 80.0), width))
    return picture(parts, max(height, 120.0), width, title)


def _cells(
    values: Sequence[Sequence[float]],
    labels: Labels,
    sizes: tuple[float, float, float],
    scale: Axis,
    anchors: tuple[str, ...],
) -> list[str]:
    left, wide, tall = sizes
    parts: list[str] = []
    for r, row in enumerate(values):
        for c, value in enumerate(row):
            if not _there(value, scale.log):
                continue
            colour = ramp(anchors, scale.share(value))
            x, y = left + c * wide, TOP + r * tall
            hint = f"{labels.rows[r]}, {labels.columns[c]}: {value:.4g}"
            parts.append(rectangle(x, y, wide + 0.3, tall + 0.3, colour, hint))
            words = cell_text(value, scale)
            if wide >= LETTER * len(words) + 4 and tall >= 18 and words:
                ink = "#fff" if is_dark(colour) else "#000"
                parts.append(text(x + wide / 2, y + tall / 2 + 5, words, ink=ink))
    return parts


def cell_text(value: float, scale: Axis) -> str:
    """Two digits relative to the largest; blank for what is negligible."""
    largest = max(abs(scale.low), abs(scale.high))
    if abs(value) < 0.005 * largest:
        return ""
    return f"{value:.{max(0, 1 - math.floor(math.log10(0.999 * largest)))}f}" if not scale.log else f"{value:.1g}"


def _there(value: float, log: bool) -> bool:
    return math.isfinite(value) and (value > 0 or not log)


def _longest(names: Sequence[str]) -> int:
    return max(map(len, names), default=1)
