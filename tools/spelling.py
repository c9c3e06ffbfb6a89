"""Check the spelling of Markdown pages against an English dictionary and the project's own `words.txt`."""

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
    """Print each unknown word with a page that contains it; return the exit code."""
    pages = [path for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")) if path.name not in GERMAN]
    page_of = {word: page for page in pages for word in words(page.read_text(encoding="utf-8"))}
    project_words = set(WORDS.read_text(encoding="utf-8").lower().split())
    english = SpellChecker()
    unknown = {word for word in english.unknown(set(page_of) - project_words) if not english.known([american(word)])}
    for word in sorted(unknown):
        print(f"{page_of[word].relative_to(ROOT)}: `{word}` is misspelled, or missing in {WORDS.relative_to(ROOT)}")
    return int(bool(unknown))


def american(word: str) -> str:
    """Convert British spelling with -ise to the dictionary's American spelling."""
    return word.replace("is", "iz").replace("our", "or")


def words(markdown: str) -> set[str]:
    """Words of the prose, in lower case and without genitive endings."""
    return {word.lower().replace("’", "'").removesuffix("'s") for word in WORD.findall(NOT_PROSE.sub(" ", markdown))}


if __name__ == "__main__":
    sys.exit(main())
