"""Colours that people with any kind of colour vision can tell apart."""

from __future__ import annotations

SERIES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")  # Okabe and Ito (2008), without black
RISING = ("#440154", "#472d7b", "#3b528b", "#2c728e", "#21918c", "#28ae80", "#5ec962", "#addc30", "#fde725")  # viridis
AROUND_ZERO = ("#0072b2", "#f7f7f7", "#d55e00")


def series_colour(index: int) -> str:
    """Of one among a few; after the last colour comes the first again."""
    return SERIES[index % len(SERIES)]


def ordered_colour(index: int, count: int) -> str:
    """Of one among many that follow each other."""
    return ramp(RISING, 0.92 * index / (count - 1))


def ramp(anchors: tuple[str, ...], share: float) -> str:
    """A colour between anchors, 0 the first and 1 the last."""
    place = min(max(share, 0.0), 1.0) * (len(anchors) - 1)
    left = min(int(place), len(anchors) - 2)
    pairs = zip(_parts(anchors[left]), _parts(anchors[left + 1]), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * (place - left)):02x}" for a, b in pairs)


def is_dark(colour: str) -> bool:
    """Whether white is easier to read on it than black."""
    red, green, blue = _parts(colour)
    return 0.299 * red + 0.587 * green + 0.114 * blue < 140


def _parts(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)
