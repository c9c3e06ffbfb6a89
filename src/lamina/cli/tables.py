"""Plain tables on stdout."""

from __future__ import annotations

from collections.abc import Sequence


def print_columns(rows: Sequence[tuple[str, ...]]) -> None:
    """Columns as wide as their widest cell."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
