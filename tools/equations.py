"""Convert TeX equations to MathML at build time, so that pages load no scripts."""

from __future__ import annotations

import re

from latex2mathml.converter import convert

CODE = re.compile(r"(^```.*?^```|`[^`\n]+`)", flags=re.DOTALL | re.MULTILINE)
DISPLAYED = re.compile(r"^\$\$\n?(.+?)\n?\$\$$", flags=re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"(?<![\\$\w])\$(?=\S)([^$\n]+?)(?<=\S)\$(?![\w$])([,.;:)]*)")


def typeset(markdown: str) -> str:
    """Convert every `$$…$$` and `$…$` outside code; in the repository they stay TeX, which forges render."""
    parts = CODE.split(markdown)
    for index in range(0, len(parts), 2):
        parts[index] = DISPLAYED.sub(
            lambda found: f'<div class="equation">{mathml(found[1], "block")}</div>', parts[index]
        )
        parts[index] = INLINE.sub(lambda found: inline(*found.groups()), parts[index])
    return "".join(parts)


def inline(tex: str, punctuation: str) -> str:
    """Convert an inline equation, kept together with the punctuation after it; a long one is scrollable on a phone.

    Without the span, Markdown would take a line that starts with `<math>` for a block.
    """
    kind = "long" if len(tex) > 50 else "whole"
    return f'<span class="{kind}">{mathml(tex, "inline")}{punctuation}</span>'


def mathml(tex: str, display: str) -> str:
    """Convert one equation."""
    made: str = convert(tex.strip(), display=display)
    return made.replace('<mo accent="true">&#x02015;', '<mo stretchy="true">&#x000AF;')  # a bar as wide as its formula
