"""Sentences of a document, by rules: no model, no download, any language that ends sentences with . ! ? or …"""

from __future__ import annotations

import re

LINE_BREAK = "⏎"  # what a line break inside a document is kept as, where it is kept
ENDING = re.compile(r"""([.!?…]+["'”’»)\]]*)\s+(?=["'“‘«(\[]*[^\W_a-zа-яёіїєґ])""")
ABBREVIATION = re.compile(
    r"(?:^|[\s(\"'])(?:[A-ZА-ЯІЇЄҐ]|Mr|Mrs|Ms|Dr|Prof|St|Sr|Jr|Inc|Ltd|Co|Corp|No|Nos|vs|etc|e\.g|i\.e|a\.m|p\.m|Fig|Sen|Rep"
    r"|Gov|Gen|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec|ст|див|рис|гр|вул)\.$"
)


def split_sentences(text: str) -> list[str]:
    """The sentences of a text in order; a kept line break ends one. A text without a boundary is one sentence."""
    return [sentence for line in text.split(LINE_BREAK) for sentence in split_line(line)]


def split_line(line: str) -> list[str]:
    """Sentences between line breaks."""
    sentences, start = [], 0
    for match in ENDING.finditer(line):
        candidate = line[start : match.end(1)]
        if match[1] == "." and ABBREVIATION.search(candidate):
            continue
        sentences.append(candidate.strip())
        start = match.end()
    sentences.append(line[start:].strip())
    return [sentence for sentence in sentences if sentence]
