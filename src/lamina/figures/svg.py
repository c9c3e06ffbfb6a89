"""The few SVG elements that pictures are made of."""

from __future__ import annotations

from html import escape
from typing import Literal

from lamina.figures.axes import Axis, tick_text
from lamina.figures.colours import SERIES, ramp, series_colour

WIDTH = 640
LETTER = 6.4  # the width of one, about
STYLE = (
    "svg.lamina{font:12px system-ui,sans-serif;fill:#333;max-width:100%;height:auto}"
    "svg.lamina .grid{stroke:#8884}svg.lamina .axis{stroke:#888}"
    "@media(prefers-color-scheme:dark){svg.lamina{fill:#ddd}}@media print{svg.lamina{fill:#000}}"
)


def picture(parts: list[str], height: float) -> str:
    """A complete SVG, for a file or a page."""
    box = f"0 0 {WIDTH} {height:.0f}"
    return (
        f'<svg class="lamina" xmlns="http://www.w3.org/2000/svg" viewBox="{box}" width="{WIDTH}" '
        f'height="{height:.0f}" role="img"><style>{STYLE}</style>{"".join(parts)}</svg>'
    )


def text(
    x: float,
    y: float,
    words: str,
    anchor: Literal["start", "middle", "end"] = "middle",
    *,
    turn: int = 0,
    size: int = 12,
    ink: str | None = None,
) -> str:
    """Text at a position, rotated by `turn` degrees."""
    turned = f' transform="rotate({turn} {x:.1f} {y:.1f})"' if turn else ""
    fill = f' fill="{ink}"' if ink else ""
    sized = f' font-size="{size}"' if size != 12 else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{sized}{fill}{turned}>{escape(words)}</text>'


def rectangle(x: float, y: float, width: float, height: float, colour: str, hint: str) -> str:
    """A filled one that says what it is when pointed at."""
    size = f'width="{width:.2f}" height="{height:.2f}"'
    return f'<rect x="{x:.2f}" y="{y:.2f}" {size} fill="{colour}"><title>{escape(hint)}</title></rect>'


def line(x1: float, y1: float, x2: float, y2: float, kind: Literal["grid", "axis"]) -> str:
    """A thin straight one."""
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def legend(names: list[str], left: float, width: float) -> tuple[list[str], float]:
    """The names of a few series with their colours, and how much room above the picture they take."""
    parts: list[str] = []
    x, y = left, 16.0
    for index, name in enumerate(names):
        needed = 24 + LETTER * len(name) + 12
        if x > left and x + needed > left + width:
            x, y = left, y + 18
        pieces = [(0, 14)] if index < len(SERIES) else [(0, 6), (8, 6)]  # dashed as its line is
        parts.extend(rectangle(x + start, y - 9, wide, 9, series_colour(index), name) for start, wide in pieces)
        parts.append(text(x + 20, y, name, "start"))
        x += needed
    return parts, (y + 12 if names else 10.0)


def colour_bar(scale: Axis, anchors: tuple[str, ...], height: float) -> list[str]:
    """What the colours of a map mean, at its right."""
    left, steps = WIDTH - 74.0, 40
    tall = height / steps
    colours = [ramp(anchors, 1 - n / (steps - 1)) for n in range(steps)]
    return [
        *(rectangle(left, 10 + n * tall, 12, tall + 0.5, colour, scale.label) for n, colour in enumerate(colours)),
        *(
            text(left + 16, 10 + height * (1 - scale.share(tick)) + 4, tick_text(tick), "start", size=11)
            for tick in scale.ticks(4)
        ),
        text(WIDTH - 10, 10 + height / 2, scale.label, turn=90, size=11),
    ]
