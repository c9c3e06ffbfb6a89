"""Plain-text tables on stdout."""

from __future__ import annotations

from collections.abc import Sequence

from lamina.figures.tables import text_table


def print_columns(rows: Sequence[tuple[str, ...]]) -> None:
    """Print a table with aligned columns."""
    print(text_table(rows))
