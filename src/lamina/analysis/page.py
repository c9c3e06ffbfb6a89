"""Self-contained HTML pages: no external requests, light and dark mode, responsive and printable."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from itertools import count
from pathlib import Path

GENERATOR = "Lamina"  # <meta name="generator"> of every page

STYLE = """
:root { color-scheme: light dark; --ink: #222; --soft: #666; --paper: #fff; --line: #8884; --accent: #0072b2;
  --mark: #ffe08a; }
@media (prefers-color-scheme: dark) { :root { --ink: #ddd; --soft: #999; --paper: #16181c; --accent: #56b4e9;
  --mark: #6b5410; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 64rem; padding: 1rem; font: 16px/1.5 system-ui, sans-serif; color: var(--ink);
  background: var(--paper); }
h1 { font-size: 1.7rem; margin: 0.5rem 0; } h2 { font-size: 1.2rem; margin: 2rem 0 0.5rem; }
p, li { max-width: 46rem; } .soft { color: var(--soft); font-size: 0.9rem; }
.wide { overflow-x: auto; } figure { margin: 0.5rem 0 1.5rem; } figcaption { color: var(--soft); font-size: 0.9rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: left; vertical-align: top; padding: 0.3rem 0.9rem 0.3rem 0; border-bottom: 1px solid var(--line); }
th { color: var(--soft); font-weight: 600; } td.number { text-align: right; }
mark { background: var(--mark); color: inherit; border-radius: 0.2rem; padding: 0 0.15rem; }
mark.gap { cursor: help; font-weight: 700; }
a { color: var(--accent); } nav ul { columns: 17rem; column-gap: 2.4rem; padding-left: 1.2rem; }
.signature { overflow-wrap: anywhere; }
summary { cursor: pointer; color: var(--accent); padding: 0.3rem 0; } details { margin: 0.3rem 0 1rem; }
dl { margin: 0; display: grid; grid-template-columns: max-content 1fr; gap: 0.1rem 1rem; } dd { margin: 0; }
dt { color: var(--soft); font-size: 0.85rem; line-height: 1.75; }
@media (max-width: 36rem) { dl { grid-template-columns: 1fr; } th, td { padding-right: 0.5rem; } }
.pictures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 30rem), 1fr)); gap: 0 1.5rem; }
.pair { border: 1px solid var(--line); border-radius: 0.5rem; padding: 0.6rem 0.9rem; margin: 0 0 0.8rem; }
pre { overflow-x: auto; padding: 0.7rem; border: 1px solid var(--line); border-radius: 0.5rem; font-size: 0.85rem; }
@media print { body { max-width: none; } details::details-content { content-visibility: visible; height: auto; }
  h2 { break-after: avoid; } figure, .pair, tr { break-inside: avoid; } }
"""


def is_ours(path: Path) -> bool:
    """Whether a file is a page written by this module."""
    try:
        with path.open("rb") as stream:
            return GENERATOR.encode() in stream.read(500)
    except OSError:
        return False


def page(title: str, parts: Sequence[str]) -> str:
    """Render a complete HTML document."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="generator" content="{GENERATOR}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="icon" href="data:,">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n<body>\n"
        + "\n".join([f"<h1>{escape(title)}</h1>", *with_contents(list(parts))])
        + "\n</body></html>\n"
    )


def with_contents(parts: list[str]) -> list[str]:
    """Add anchors to the headings and, if there are at least four, a table of contents."""
    numbers = count(1)
    parts = [re.sub("<h2>", lambda _: f'<h2 id="part{next(numbers)}">', part) for part in parts]
    headings = re.findall(r'<h2 id="(\w+)">(.*?)</h2>', "".join(parts))
    if len(headings) < 4:
        return parts
    links = "".join(f'<li><a href="#{anchor}">{heading}</a></li>' for anchor, heading in headings)
    return [f'<nav aria-label="Contents"><ul>{links}</ul></nav>', *parts]


def section(title: str, *parts: str) -> str:
    """Render a heading and its content."""
    return "\n".join([f"<h2>{escape(title)}</h2>", *parts])


def folded(title: str, *parts: str) -> str:
    """Render a collapsed block, expanded in print."""
    return f"<details><summary>{escape(title)}</summary>{''.join(parts)}</details>"


def paragraph(text: str, kind: str = "") -> str:
    """Render text as a paragraph; only `code` is marked up."""
    content = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))
    return f'<p class="{kind}">{content}</p>' if kind else f"<p>{content}</p>"


def figure(drawing: str, caption: str) -> str:
    """Render a picture with its caption."""
    return f'<figure><div class="wide">{drawing}</div><figcaption>{escape(caption)}</figcaption></figure>'


def side_by_side(figures: Sequence[str]) -> str:
    """Lay figures out in two columns if the page is wide enough."""
    return f'<div class="pictures">{"".join(figures)}</div>'


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Render a table with numbers aligned to the right."""
    first = "".join(f"<th>{escape(each)}</th>" for each in head)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{first}</tr></thead><tbody>{body}</tbody></table></div>'


def code(text: str) -> str:
    """Render preformatted text."""
    return f"<pre>{escape(text)}</pre>"


def definitions(pairs: Sequence[tuple[str, str]]) -> str:
    """Render a definition list of names and HTML descriptions."""
    inner = "".join(f"<dt>{escape(name)}</dt><dd>{description}</dd>" for name, description in pairs)
    return f'<div class="pair"><dl>{inner}</dl></div>'


def _cell(text: str) -> str:
    kind = ' class="number"' if text[:1] in "+-−0123456789" and text else ""
    return f"<td{kind}>{escape(text)}</td>"
