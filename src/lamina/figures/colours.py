"""Colour-blind-safe colours for figures on light and dark backgrounds."""

from __future__ import annotations

# After Okabe and Ito (2008), darkened for light pages and lightened for dark ones: contrast at least 3:1.
SERIES = ("#0072b2", "#d55e00", "#00835f", "#b8558c", "#9a6b00", "#5f6670")
SERIES_ON_DARK = ("#56b4e9", "#ff8c42", "#2ec4a0", "#e39ac7", "#f0b429", "#b8c0cc")
INK, INK_ON_DARK = "#333", "#ddd"
PAPER, PAPER_ON_DARK = "#fff", "#111"  # around lines on coloured areas
ORDERED = ("#2b78d0", "#7467cc", "#ad58a5", "#d05a74", "#cc6430", "#a87b12")  # at least 3:1 on light and dark
RISING = ("#440154", "#472d7b", "#3b528b", "#2c728e", "#21918c", "#28ae80", "#5ec962", "#addc30", "#fde725")  # viridis
AROUND_ZERO = ("#0072b2", "#f7f7f7", "#d55e00")


def series_colour(index: int) -> str:
    """Colour of a series; colours repeat cyclically."""
    return SERIES[index % len(SERIES)]


def ordered_colour(index: int, count: int) -> str:
    """Colour of one of many ordered series."""
    return ramp(ORDERED, index / (count - 1))


def style_sheet(dark: bool, scope: str = "") -> str:
    """CSS rules for figures on light or dark pages, optionally nested below the selector `scope`."""
    series = SERIES_ON_DARK if dark else SERIES
    ink, paper = (INK_ON_DARK, PAPER_ON_DARK) if dark else (INK, PAPER)
    rules = [f"{scope}svg.lamina{{fill:{ink}}}{scope}svg.lamina .interval{{stroke:{ink}}}"]
    rules.append(f"{scope}svg.lamina .halo{{stroke:{paper}}}")
    for index, colour in enumerate(series):
        rules.append(
            f"{scope}svg.lamina .line{index}{{stroke:{colour}}}{scope}svg.lamina .area{index}{{fill:{colour}}}"
        )
    return "".join(rules)


def ramp(anchors: tuple[str, ...], share: float) -> str:
    """Interpolate between anchor colours, from 0 to 1."""
    position = min(max(share, 0.0), 1.0) * (len(anchors) - 1)
    left = min(int(position), len(anchors) - 2)
    pairs = zip(_parts(anchors[left]), _parts(anchors[left + 1]), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * (position - left)):02x}" for a, b in pairs)


def is_dark(colour: str) -> bool:
    """Whether white text is more legible on this colour than black."""
    return luminance(colour) < 0.179  # where white and black have the same contrast


def luminance(colour: str) -> float:
    """Relative luminance as in WCAG, from 0 (black) to 1 (white)."""
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in (value / 255 for value in _parts(colour))
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _parts(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)
