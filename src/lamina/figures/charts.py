"""Lines and bars as SVG text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape

from lamina.figures.axes import Axis, tick_text
from lamina.figures.colours import RISING, SERIES, ordered_colour, series_colour
from lamina.figures.svg import LETTER, WIDTH, colour_bar, legend, line, picture, rectangle, text

HEIGHT, LEFT, RIGHT, BOTTOM = 320, 66, 16, 46


@dataclass(frozen=True)
class Series:
    """A named line through points, in order of x."""

    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class _Frame:
    """The drawing area."""

    top: float
    right: float

    @property
    def width(self) -> float:
        return WIDTH - LEFT - self.right

    def x(self, share: float) -> float:
        return LEFT + share * self.width

    def y(self, share: float) -> float:
        return HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - self.top)


def line_chart(series: Sequence[Series], x: Axis, y: Axis, order: str = "") -> str:
    """Lines over two axes. More than there are colours are dashed, or, if they follow in an `order`, along a ramp."""
    many = bool(order) and len(series) > len(SERIES)
    names, top = legend([] if many else [each.name for each in series], LEFT, WIDTH - LEFT - RIGHT)
    frame = _Frame(top, RIGHT + 84 if many else RIGHT)
    parts = [*names, *_horizontal(frame, x), *_vertical(frame, y)]
    for index, each in enumerate(series):
        seen = [(a, b) for a, b in each.points if math.isfinite(b) and (b > 0 or not y.log)]
        places = [(frame.x(x.share(a)), frame.y(y.share(b))) for a, b in seen]
        colour = ordered_colour(index, len(series)) if many else series_colour(index)
        dashes = "" if many or index < len(SERIES) else ' stroke-dasharray="6 4"'
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in places)
        parts.append(
            f'<polyline fill="none" stroke="{colour}" stroke-width="{1.2 if many else 2}"{dashes} '
            f'stroke-linejoin="round" points="{path}"><title>{escape(each.name)}</title></polyline>'
        )
        if len(places) <= 12:
            parts.extend(f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{colour}"/>' for a, b in places)
    if many:
        parts.extend(colour_bar(Axis(order, 1, len(series)), RISING, HEIGHT - BOTTOM - 10))
    return picture(parts, HEIGHT)


def bar_chart(groups: Sequence[str], series: Sequence[tuple[str, Sequence[float]]], y: Axis, label: str = "") -> str:
    """For each group a bar of every series, side by side, with its value where there is room."""
    names, top = legend([name for name, _ in series] if len(series) > 1 else [], LEFT, WIDTH - LEFT - RIGHT)
    if y.low < 0:  # room for the numbers below bars
        y = replace(y, low=y.low - 0.08 * (y.high - y.low))
    frame = _Frame(top + 12, RIGHT)
    parts = [*names, *_vertical(frame, y), text(LEFT + frame.width / 2, HEIGHT - 8, label)]
    slot = frame.width / max(1, len(groups))
    thick = 0.8 * slot / max(1, len(series))
    gap = min(1.0, 0.1 * thick)
    every = math.ceil((max(map(len, groups), default=0) * LETTER + LETTER) / slot)  # bars per label
    zero = frame.y(y.share(min(max(0.0, y.low), y.high)))
    for place, group in enumerate(groups):
        middle = LEFT + (place + 0.5) * slot
        if place % every == 0:
            parts.append(text(middle, HEIGHT - BOTTOM + 16, group))
        for index, (name, values) in enumerate(series):
            value, left = values[place], middle + (index - len(series) / 2) * thick
            end = frame.y(y.share(value))
            colour = series_colour(index)
            parts.append(
                rectangle(
                    *(left + gap, min(end, zero), thick - 2 * gap, abs(zero - end)),
                    colour,
                    f"{name}, {group}: {value:.4g}",
                )
            )
            if thick >= 30:
                parts.append(text(left + thick / 2, end - 4 if value >= 0 else end + 12, f"{value:.3g}", size=11))
    return picture(parts, HEIGHT)


def _horizontal(frame: _Frame, axis: Axis) -> list[str]:
    floor = HEIGHT - BOTTOM
    parts = [line(LEFT, floor, LEFT + frame.width, floor, "axis")]
    parts += [text(frame.x(axis.share(tick)), floor + 16, tick_text(tick)) for tick in axis.ticks()]
    return [*parts, text(LEFT + frame.width / 2, HEIGHT - 8, axis.label)]


def _vertical(frame: _Frame, axis: Axis) -> list[str]:
    parts: list[str] = []
    for tick in axis.ticks():
        y = frame.y(axis.share(tick))
        parts += [line(LEFT, y, LEFT + frame.width, y, "grid"), text(LEFT - 6, y + 4, tick_text(tick), "end")]
    return [*parts, text(14, (frame.y(0) + frame.y(1)) / 2, axis.label, turn=-90)]
