"""Words of a sentence that was cut into subwords: which tokens each consists of."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from lamina.text.pipeline import LanguageText
from lamina.text.subwords import CONTINUED, Bpe, SentencePiece
from lamina.text.vocabulary import SPECIALS

SPACE = "▁"  # SentencePiece's mark of a piece before which there is a space
PUNCTUATION = frozenset(".,;:!?…。、！？")  # words of their own, though no space stands before them
BYTE = re.compile(r"<0x([0-9A-F]{2})>")


def group_words(side: LanguageText, ids: Sequence[int]) -> list[dict[str, Any]]:
    """Each word's text and its first and last token, the latter exclusive; eos is no word."""
    symbols = [side.vocabulary.symbols[index] for index in ids]
    words: list[list[int]] = []
    continued = False
    for place, symbol in enumerate(symbols):
        if symbol in SPECIALS and symbol != SPECIALS[3]:
            continued = False
            continue
        if isinstance(side.subwords, SentencePiece):
            mark = place > 0 and symbols[place - 1] == SPACE  # a space by itself belongs to what follows it
            starts = symbol.startswith(SPACE) or (symbol in PUNCTUATION and not mark)
        elif isinstance(side.subwords, Bpe):
            starts = not continued
            continued = symbol.endswith(CONTINUED)
        else:
            starts = True
        if starts or not words:
            words.append([place, place + 1])
        else:
            words[-1][1] = place + 1
    return [{"text": join_pieces(symbols[first:last]), "tokens": [first, last]} for first, last in words]


def join_pieces(pieces: Sequence[str]) -> str:
    """The text of a word's pieces."""
    content = b"".join(
        bytes([int(match.group(1), 16)]) if (match := BYTE.fullmatch(piece)) else piece.encode("utf-8")
        for piece in (piece.replace(SPACE, "").removesuffix(CONTINUED) for piece in pieces)
    )
    return content.decode("utf-8", "replace")
