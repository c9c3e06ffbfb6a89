"""SVG elements."""

from __future__ import annotations

from html import escape
from textwrap import wrap
from typing import Literal

from lamina.figures.axes import Axis, tick_text
from lamina.figures.colours import SERIES, ramp, series_colour, style_sheet

WIDTH = 480  # of a chart; heat maps may be wider
FONT = 15
SMALLEST = 11  # font size on screen: narrower figures scroll instead of scaling down further
LETTER = 8.0  # approximate character width
BOLD_LETTER = 9.0
STYLE = (
    f"svg.lamina{{font:{FONT}px system-ui,sans-serif;max-width:100%;height:auto}}"
    "svg.lamina .title{font-weight:600}svg.lamina .grid{stroke:#8884}svg.lamina .axis{stroke:#888}"
    "svg.lamina .interval{stroke-width:1.5}svg.lamina .halo{stroke-width:5}"
    f"{style_sheet(dark=False)}@media(prefers-color-scheme:dark){{{style_sheet(dark=True)}}}"
    f"@media print{{{style_sheet(dark=False)}}}"
)


def picture(parts: list[str], height: float, width: float = WIDTH, title: str = "") -> str:
    """Assemble a complete SVG with the title on top."""
    lines = wrap(title, int((width - 8) / BOLD_LETTER))
    room = 20 * len(lines) + 6 if lines else 0
    heading = [
        f'<text class="title" x="4" y="{16 + 20 * row}">{escape(words)}</text>' for row, words in enumerate(lines)
    ]
    size = f'viewBox="0 0 {width:.0f} {height + room:.0f}" width="{width:.0f}" height="{height + room:.0f}"'
    return (
        f'<svg class="lamina" xmlns="http://www.w3.org/2000/svg" {size} role="img" '
        f'style="min-width:{width * SMALLEST / FONT:.0f}px" aria-label="{escape(title)}">'
        f"<style>{STYLE}</style>{''.join(heading)}"
        f'<g transform="translate(0 {room})">{"".join(parts)}</g></svg>'
    )


def text(
    x: float,
    y: float,
    words: str,
    anchor: Literal["start", "middle", "end"] = "middle",
    *,
    turn: int = 0,
    ink: str | None = None,
) -> str:
    """Draw text, rotated by `turn` degrees."""
    turned = f' transform="rotate({turn} {x:.1f} {y:.1f})"' if turn else ""
    fill = f' fill="{ink}"' if ink else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{fill}{turned}>{escape(words)}</text>'


def rectangle(x: float, y: float, width: float, height: float, colour: str | int, hint: str) -> str:
    """Draw a filled rectangle with a tooltip; an integer colour is the index of a series."""
    fill = f'fill="{colour}"'
    if isinstance(colour, int):
        fill = f'class="area{colour % len(SERIES)}" fill="{series_colour(colour)}"'
    size = f'width="{width:.2f}" height="{height:.2f}"'
    return f'<rect x="{x:.2f}" y="{y:.2f}" {size} {fill}><title>{escape(hint)}</title></rect>'


def line(x1: float, y1: float, x2: float, y2: float, kind: Literal["grid", "axis", "interval", "halo"]) -> str:
    """Draw a thin line."""
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def legend(names: list[str], left: float, width: float) -> tuple[list[str], float]:
    """Draw a legend above the chart; also return its height."""
    parts: list[str] = []
    x, y = left, 16.0
    for index, name in enumerate(names):
        needed = 24 + LETTER * len(name) + 12
        if x > left and x + needed > left + width:
            x, y = left, y + 20
        pieces = [(0, 14)] if index < len(SERIES) else [(0, 6), (8, 6)]  # dashed like the line
        parts.extend(rectangle(x + start, y - 10, wide, 10, index, name) for start, wide in pieces)
        parts.append(text(x + 20, y, name, "start"))
        x += needed
    return parts, (y + 12 if names else 10.0)


def colour_bar(scale: Axis, anchors: tuple[str, ...], height: float, right: float) -> list[str]:
    """Draw the colour scale at the right edge, with labelled ends."""
    left, steps = right - 82.0, 40
    tall = height / steps
    colours = [ramp(anchors, 1 - n / (steps - 1)) for n in range(steps)]
    most = max(1, min(4, int(height / 40)))
    inner = [tick for tick in scale.ticks(most) if 24 < height * scale.share(tick) < height - 24]
    return [
        *(rectangle(left, 10 + n * tall, 12, tall + 0.5, colour, scale.label) for n, colour in enumerate(colours)),
        *(
            text(left + 17, 10 + height * (1 - scale.share(tick)) + 5, tick_text(float(f"{tick:.2g}")), "start")
            for tick in (scale.low, *inner, scale.high)
        ),
        text(right - 14, 10 + height / 2, scale.label, turn=90),
    ]
