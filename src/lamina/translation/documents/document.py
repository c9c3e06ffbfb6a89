"""A document as passages of sentences to translate and the text between them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from lamina.translation.documents.sentences import split_sentences

Splitter = Callable[[str], list[str]]


def unchanged(text: str) -> str:
    """Write a passage as translated."""
    return text


@dataclass(frozen=True)
class Passage:
    """A run of sentences, the white space after each, and a function that formats the joined translation."""

    sentences: tuple[str, ...]
    spaces: tuple[str, ...]
    write: Callable[[str], str] = unchanged


@dataclass(frozen=True)
class Document:
    """Verbatim text and passages, in file order."""

    pieces: tuple[str | Passage, ...]

    @property
    def sentences(self) -> list[str]:
        """All sentences to translate, in order."""
        return [sentence for piece in self.pieces if isinstance(piece, Passage) for sentence in piece.sentences]

    def render(self, translations: Iterable[str]) -> str:
        """Render the document with each sentence replaced by its translation."""
        remaining = iter(translations)
        written: list[str] = []
        for piece in self.pieces:
            if isinstance(piece, str):
                written.append(piece)
                continue
            translated = [next(remaining) + space for space in piece.spaces]
            written.append(piece.write("".join(translated)))
        return "".join(written)


def has_words(text: str) -> bool:
    """Whether the text contains a letter or a digit."""
    return any(character.isalnum() for character in text)


def make_passages(
    text: str,
    split: Splitter,
    write: Callable[[str], str] = unchanged,
    is_translatable: Callable[[str], object] = has_words,
) -> list[str | Passage]:
    """Make a passage and keep the surrounding white space; untranslatable text is returned verbatim."""
    if not is_translatable(text):
        return [text] if text else []
    core = text.strip()
    start = text.index(core)
    before, after = text[:start], text[start + len(core) :]
    sentences, spaces = separate_spaces(split(core))
    pieces: list[str | Passage] = [before, Passage(sentences, spaces, write), after]
    return [piece for piece in pieces if piece != ""]


def separate_spaces(parts: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Split each sentence from its trailing white space."""
    sentences = tuple(part.rstrip() for part in parts)
    return sentences, tuple(part[len(sentence) :] for part, sentence in zip(parts, sentences, strict=True))


def splitter_for(language: str) -> Splitter:
    """Return a sentence splitter for a language."""

    def split(text: str) -> list[str]:
        return split_sentences(text, language)

    return split


def keep_whole(text: str) -> list[str]:
    """Splitter for text to be translated as a single sentence."""
    return [text]
