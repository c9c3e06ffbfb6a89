"""Convert TeX equations to MathML at build time, so that pages load no scripts."""

from __future__ import annotations

import re

from latex2mathml.converter import convert

CODE = re.compile(r"(^```.*?^```|`[^`\n]+`)", flags=re.DOTALL | re.MULTILINE)
DISPLAYED = re.compile(r"^\$\$\n?(.+?)\n?\$\$$", flags=re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"(?<![\\$\w])\$(?=\S)([^$\n]+?)(?<=\S)\$(?![\w$])")


def typeset(markdown: str) -> str:
    """Convert every `$$…$$` and `$…$` outside code; in the repository they stay TeX, which forges render."""
    parts = CODE.split(markdown)
    for index in range(0, len(parts), 2):
        parts[index] = DISPLAYED.sub(
            lambda found: f'<div class="equation">{mathml(found[1], "block")}</div>', parts[index]
        )
        parts[index] = INLINE.sub(lambda found: inline(found[1]), parts[index])
    return "".join(parts)


def inline(tex: str) -> str:
    """Convert an inline equation; a long one is scrollable on a phone.

    Without the span, Markdown would take a line that starts with `<math>` for a block.
    """
    kind = ' class="long"' if len(tex) > 50 else ""
    return f"<span{kind}>{mathml(tex, 'inline')}</span>"


def mathml(tex: str, display: str) -> str:
    """Convert one equation."""
    return convert(tex.strip(), display=display)
