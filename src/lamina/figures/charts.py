"""Line charts and bar charts as SVG text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from html import escape

from lamina.figures.axes import Axis, tick_text
from lamina.figures.colours import ORDERED, SERIES, ordered_colour, series_colour
from lamina.figures.svg import LETTER, WIDTH, colour_bar, legend, line, picture, rectangle, text

HEIGHT, LEFT, RIGHT, BOTTOM = 320, 72, 16, 52
Interval = tuple[float, float]


@dataclass(frozen=True)
class Series:
    """A named line through points, in order of x."""

    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Bars:
    """A named series with a value per group and, optionally, confidence intervals."""

    name: str
    values: Sequence[float]
    intervals: Sequence[Interval] = ()


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


def line_chart(series: Sequence[Series], x: Axis, y: Axis, order: str = "", title: str = "") -> str:
    """Draw lines. If there are more than colours, the rest is dashed or, given an `order`, all use a colour ramp."""
    use_ramp = bool(order) and len(series) > len(SERIES)
    names, top = legend([] if use_ramp else [each.name for each in series], LEFT, WIDTH - LEFT - RIGHT)
    frame = _Frame(top, RIGHT + 84 if use_ramp else RIGHT)
    parts = [*names, *_horizontal(frame, x), *_vertical(frame, y)]
    for index, each in enumerate(series):
        drawable = [(a, b) for a, b in each.points if math.isfinite(b) and (b > 0 or not y.log)]
        points = [(frame.x(x.share(a)), frame.y(y.share(b))) for a, b in drawable]
        colour = ordered_colour(index, len(series)) if use_ramp else series_colour(index)
        kind = "" if use_ramp else f'class="line{index % len(SERIES)}" '
        dashes = "" if use_ramp or index < len(SERIES) else ' stroke-dasharray="6 4"'
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        parts.append(
            f'<polyline {kind}fill="none" stroke="{colour}" stroke-width="{1.4 if use_ramp else 2}"{dashes} '
            f'stroke-linejoin="round" points="{path}"><title>{escape(each.name)}</title></polyline>'
        )
        if len(points) <= 12:
            dot = f'class="area{index % len(SERIES)}" ' if not use_ramp else ""
            parts.extend(f'<circle {dot}cx="{a:.1f}" cy="{b:.1f}" r="3.5" fill="{colour}"/>' for a, b in points)
    if use_ramp:
        parts.extend(colour_bar(Axis(order, 1, len(series)), ORDERED, HEIGHT - BOTTOM - 10, WIDTH))
    return picture(parts, HEIGHT, title=title)


def bar_chart(groups: Sequence[str], series: Sequence[Bars], y: Axis, label: str = "", title: str = "") -> str:
    """Draw grouped bars, with their values if there is room."""
    names, top = legend([each.name for each in series] if len(series) > 1 else [], LEFT, WIDTH - LEFT - RIGHT)
    ends = [end for each in series for interval in each.intervals for end in interval]
    y = replace(y, low=min(y.low, *ends, 0.0), high=max(y.high, *ends, 0.0))
    if y.low < 0:  # room for the numbers below bars
        y = replace(y, low=y.low - 0.1 * (y.high - y.low))
    frame = _Frame(top + 14, RIGHT)
    parts = [*names, *_vertical(frame, y), text(LEFT + frame.width / 2, HEIGHT - 8, label)]
    slot = frame.width / max(1, len(groups))
    bar_width = 0.8 * slot / max(1, len(series))
    digits = _digits(value for each in series for value in each.values)
    label_every = math.ceil((max(map(len, groups), default=0) * LETTER + 4) / slot)  # groups per label
    for position, group in enumerate(groups):
        middle = LEFT + (position + 0.5) * slot
        if position % label_every == 0:
            parts.append(text(middle, HEIGHT - BOTTOM + 20, group))
        for index, each in enumerate(series):
            left = middle + (index - len(series) / 2) * bar_width
            parts += _bar(frame, y, each, position, group, index, left, bar_width, digits)
    return picture(parts, HEIGHT, title=title)


def _bar(
    frame: _Frame,
    y: Axis,
    bars: Bars,
    position: int,
    group: str,
    index: int,
    left: float,
    bar_width: float,
    digits: int,
) -> list[str]:
    """Draw one bar with its interval and value."""
    value, gap, centre = bars.values[position], min(1.0, 0.1 * bar_width), left + bar_width / 2
    zero, end = (frame.y(y.share(min(max(each, y.low), y.high))) for each in (0.0, value))
    hint = f"{bars.name}, {group}: {value:.4g}"
    low = high = end
    parts = []
    if bars.intervals:
        low, high = (frame.y(y.share(each)) for each in bars.intervals[position])
        hint += f" (95% interval {bars.intervals[position][0]:.4g} to {bars.intervals[position][1]:.4g})"
        strokes = [(centre, low, centre, high), *((centre - 4, at, centre + 4, at) for at in (low, high))]
        parts = [line(*stroke, kind) for kind in ("halo", "interval") for stroke in strokes]
    parts.insert(0, rectangle(left + gap, min(end, zero), bar_width - 2 * gap, abs(zero - end), index, hint))
    if bar_width >= 4.5 * LETTER:
        parts.append(text(centre, high - 5 if value >= 0 else max(low, end) + 16, _label(value, digits)))
    return parts


def _digits(values: Iterable[float]) -> int:
    """Decimals with which the largest of the values has three digits."""
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    return max(0, 2 - math.floor(math.log10(largest))) if largest else 0


def _label(value: float, digits: int) -> str:
    """A value with this number of decimals, or with three digits if they are too many or too few."""
    text = f"{value:.{digits}f}"
    return text if digits <= 4 and (float(text) or not value) else f"{value:.3g}"


def _horizontal(frame: _Frame, axis: Axis) -> list[str]:
    floor = HEIGHT - BOTTOM
    parts = [line(LEFT, floor, LEFT + frame.width, floor, "axis")]
    parts += [text(frame.x(axis.share(tick)), floor + 20, tick_text(tick)) for tick in axis.ticks(5)]
    return [*parts, text(LEFT + frame.width / 2, HEIGHT - 8, axis.label)]


def _vertical(frame: _Frame, axis: Axis) -> list[str]:
    parts: list[str] = []
    for tick in axis.ticks():
        y = frame.y(axis.share(tick))
        parts += [line(LEFT, y, LEFT + frame.width, y, "grid"), text(LEFT - 7, y + 5, tick_text(tick), "end")]
    return [*parts, text(15, (frame.y(0) + frame.y(1)) / 2, axis.label, turn=-90)]
