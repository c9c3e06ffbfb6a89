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
    """Convert one equation; MathML needs the spaces that TeX sets around the names of functions."""
    tex = re.sub(r"\\log(?![a-zA-Z])\s*(?=[a-zA-Z\\])", r"\\log\\,", tex.strip())
    tex = re.sub(r"(?<=[\w)}])\s*\\log(?![a-zA-Z])", r"\\,\\log", tex)
    made: str = convert(tex, display=display)
    made = made.replace("<mi>;</mi>", "<mo>;</mo>")  # an operator has space around it
    return made.replace('<mo accent="true">&#x02015;', '<mo stretchy="true">&#x0203E;')  # a bar as wide as its formula
