"""Spelling of the prose in Markdown pages, against an English dictionary and `words.txt`, the words of this project."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from spellchecker import SpellChecker

ROOT = Path(__file__).parents[1]
WORDS = Path(__file__).with_name("words.txt")
GERMAN = {"demo-corpus.md"}
NOT_PROSE = re.compile(
    r"^```.*?^```|^ {4}.*?$|`[^`]*`|\]\([^)]*\)|<[^>]+>|https?://\S+|\{ [^}]+ \}|\$[^$\n]+\$",
    flags=re.DOTALL | re.MULTILINE,
)
WORD = re.compile(r"[A-Za-z][a-z'’]*[a-z]\b")


def main() -> int:
    """Print each unknown word with its first page; the exit code."""
    pages = [path for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")) if path.name not in GERMAN]
    first = {word: page for page in pages for word in words(page.read_text(encoding="utf-8"))}
    ours = set(WORDS.read_text(encoding="utf-8").lower().split())
    english = SpellChecker()
    unknown = {word for word in english.unknown(set(first) - ours) if not english.known([american(word)])}
    for word in sorted(unknown):
        print(f"{first[word].relative_to(ROOT)}: `{word}` is misspelled, or missing in {WORDS.relative_to(ROOT)}")
    return int(bool(unknown))


def american(word: str) -> str:
    """Our spelling is British, with -ise; the dictionary's is American."""
    return word.replace("is", "iz").replace("our", "or")


def words(markdown: str) -> set[str]:
    """The words of the prose, in lower case and without a genitive."""
    return {word.lower().replace("’", "'").removesuffix("'s") for word in WORD.findall(NOT_PROSE.sub(" ", markdown))}


if __name__ == "__main__":
    sys.exit(main())
