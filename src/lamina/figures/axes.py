"""Axes of charts: value positions and tick labels."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Axis:
    """An axis with its label, range and scale (linear or logarithmic)."""

    label: str
    low: float
    high: float
    log: bool = False
    marks: tuple[float, ...] = ()  # ticks at these values instead of round ones

    @classmethod
    def at(cls, label: str, values: Iterable[float]) -> Axis:
        """Make an axis with a tick at each value."""
        marks = tuple(sorted(set(values)))
        return replace(cls.over(label, marks), marks=marks)

    @classmethod
    def over(cls, label: str, values: Iterable[float], *, log: bool = False, zero: bool = False) -> Axis:
        """Make an axis that covers the values and, with `zero`, 0."""
        drawable = [value for value in values if math.isfinite(value) and (value > 0 or not log)]
        low, high = (min(drawable), max(drawable)) if drawable else (1.0, 10.0)
        if zero:
            low, high = min(low, 0.0), max(high, 0.0)
        if low == high:
            low, high = (low / 2, high * 2) if log else (low - 0.5, high + 0.5)
        return cls(label, low, high, log)

    def share(self, value: float) -> float:
        """Relative position of a value on the axis, 0 to 1."""
        if self.log:
            return (math.log(value) - math.log(self.low)) / (math.log(self.high) - math.log(self.low))
        return (value - self.low) / (self.high - self.low)

    def ticks(self, most: int = 6) -> list[float]:
        """Tick values: `marks`, or round values within the range."""
        if self.marks:
            return list(self.marks)
        if self.log and self.high / self.low >= 4:
            decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            for digits in ((1, 2, 5), (1,)):
                found = [digit * 10.0**decade for decade in decades for digit in digits]
                found = [value for value in found if self.low <= value <= self.high]
                if len(found) <= 2 * most:
                    break
            return found[:: max(1, -(-len(found) // (2 * most)))]
        step = _round_up((self.high - self.low) / most)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [step * number for number in range(first, last + 1)]


def tick_text(value: float) -> str:
    """Format a tick label compactly, with thousands separators."""
    if value == 0:
        return "0"
    if abs(value) < 1e-3 or abs(value) >= 1e6:
        return f"{value:.0e}".replace("e-0", "e-").replace("e+0", "e")
    return f"{value:,.0f}" if abs(value) >= 100 or value == round(value) else f"{value:.4g}"


def _round_up(step: float) -> float:
    power = 10.0 ** math.floor(math.log10(step))
    return next(power * digit for digit in (1, 2, 5, 10) if power * digit >= step * (1 - 1e-9))
