"""Rule-based sentence splitting, for any language that ends sentences with . ! ? or …"""

from __future__ import annotations

import re

LINE_BREAK = "⏎"  # represents a line break within a document
ENDING = re.compile(r"""([.!?…]+["'”’»)\]]*)\s+(?=["'“‘«(\[]*[^\W_a-zа-яёіїєґ])""")
ABBREVIATION = re.compile(
    r"(?:^|[\s(\"'])(?:[A-ZА-ЯІЇЄҐ]|Mr|Mrs|Ms|Dr|Prof|St|Sr|Jr|Inc|Ltd|Co|Corp|No|Nos|vs|etc|e\.g|i\.e|a\.m|p\.m|Fig|Sen|Rep"
    r"|Gov|Gen|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec|ст|див|рис|гр|вул)\.$"
)


def split_sentences(text: str) -> list[str]:
    """Split text into sentences, at `LINE_BREAK` as well."""
    return [sentence for line in text.split(LINE_BREAK) for sentence in split_line(line)]


def split_line(line: str) -> list[str]:
    """Split text without line breaks into sentences."""
    sentences, start = [], 0
    for match in ENDING.finditer(line):
        candidate = line[start : match.end(1)]
        if match[1] == "." and ABBREVIATION.search(candidate):
            continue
        sentences.append(candidate.strip())
        start = match.end()
    sentences.append(line[start:].strip())
    return [sentence for sentence in sentences if sentence]
