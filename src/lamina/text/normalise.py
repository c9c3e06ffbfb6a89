"""Normalisation of a line of text."""

from __future__ import annotations

import re
import unicodedata

# C0 and C1 controls (NUL, tab, form feed, NEL …), U+2028/U+2029, every kind of space, and a stray byte order mark
BLANK = re.compile(r"[\s\x00-\x1f\x7f-\x9f\ufeff]+")


def normalise(text: str) -> str:
    """Compose characters (NFC), collapse spaces, and replace control characters by spaces."""
    if not text.isprintable() or "  " in text:  # nearly all text passes these two cheap checks
        text = BLANK.sub(" ", text)
    if not text.isascii():
        text = unicodedata.normalize("NFC", text)
    return text.strip(" ")
