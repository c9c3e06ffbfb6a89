"""Document formats and their readers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePath
from typing import Literal, get_args

from lamina.translation.documents.document import (
    Document,
    Passage,
    Splitter,
    has_words,
    keep_whole,
    make_passages,
    splitter_for,
)
from lamina.translation.documents.html import read_html
from lamina.translation.documents.subtitles import LINE, read_subtitles

Format = Literal["text", "html", "srt", "vtt"]
FORMATS: tuple[Format, ...] = get_args(Format)
SUFFIXES: dict[str, Format] = {
    ".txt": "text", ".md": "text", ".html": "html", ".htm": "html", ".xhtml": "html", ".srt": "srt", ".vtt": "vtt",
}  # fmt: skip


def read_document(text: str, form: Format | None, language: str) -> Document:
    """Parse a document in `language`; without a format every line is one sentence, as in `lamina translate`."""
    if form is None:
        return Document(tuple(read_lines(text, keep_whole, is_translatable=str.strip)))
    readers: dict[Format, Callable[[str, Splitter], list[str | Passage]]] = {
        "text": read_lines,
        "html": read_html,
        "srt": read_subtitles,
        "vtt": read_subtitles,
    }
    return Document(tuple(readers[form](text, splitter_for(language))))


def read_lines(text: str, split: Splitter, is_translatable: Callable[[str], object] = has_words) -> list[str | Passage]:
    """Parse plain text line by line; line endings, blank lines and indentation are kept."""
    pieces: list[str | Passage] = []
    for line in (match.group() for match in LINE.finditer(text) if match.group()):
        body = line.rstrip("\r\n")
        pieces += [*make_passages(body, split, is_translatable=is_translatable), line[len(body) :]]
    return [piece for piece in pieces if piece != ""]


def format_of_file(name: str) -> Format | None:
    """Format implied by a file's suffix, if any."""
    return SUFFIXES.get(PurePath(name).suffix.lower())
