"""Equations: TeX between dollars becomes MathML when the site is built, so that showing it loads nothing."""

from __future__ import annotations

import re

from latex2mathml.converter import convert

CODE = re.compile(r"(^```.*?^```|`[^`\n]+`)", flags=re.DOTALL | re.MULTILINE)
DISPLAYED = re.compile(r"^\$\$\n?(.+?)\n?\$\$$", flags=re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"(?<![\\$\w])\$(?=\S)([^$\n]+?)(?<=\S)\$(?![\w$])")


def typeset(markdown: str) -> str:
    """Every `$$…$$` and `$…$` outside code; both are plain TeX in a clone, where forges typeset them themselves."""
    parts = CODE.split(markdown)
    for index in range(0, len(parts), 2):
        parts[index] = DISPLAYED.sub(
            lambda found: f'<div class="equation">{mathml(found[1], "block")}</div>', parts[index]
        )
        parts[index] = INLINE.sub(lambda found: in_line(found[1]), parts[index])
    return "".join(parts)


def in_line(tex: str) -> str:
    """Within a sentence; a long one can be scrolled on a phone."""
    return f'<span class="long">{mathml(tex, "inline")}</span>' if len(tex) > 50 else mathml(tex, "inline")


def mathml(tex: str, display: str) -> str:
    """One equation."""
    return convert(tex.strip(), display=display)
