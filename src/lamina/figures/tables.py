"""Text tables for terminals and HTML tables for notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

Cells = Sequence[Sequence[str]]


def text_table(rows: Cells) -> str:
    """Align columns with spaces."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def html_table(head: Sequence[str], rows: Cells) -> str:
    """Render a table for a notebook, which styles it."""
    heads = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{_html_rows(rows)}</tbody></table>"


def html_facts(title: str, facts: Cells) -> str:
    """Render names and values under a title."""
    return f"<table><caption><b>{escape(title)}</b></caption><tbody>{_html_rows(facts)}</tbody></table>"


def _html_rows(rows: Cells) -> str:
    cells = ("".join(f'<td style="text-align:left">{escape(cell)}</td>' for cell in row) for row in rows)
    return "".join(f"<tr>{row}</tr>" for row in cells)
