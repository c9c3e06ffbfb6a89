"""A document: passages of sentences to translate, and the text between them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from lamina.translation.documents.sentences import split_sentences

Splitter = Callable[[str], list[str]]


def unchanged(text: str) -> str:
    """A passage that is written as it was translated."""
    return text


@dataclass(frozen=True)
class Passage:
    """Sentences that belong together, the space after each, and how their translations are written."""

    sentences: tuple[str, ...]
    spaces: tuple[str, ...]
    write: Callable[[str], str] = unchanged


@dataclass(frozen=True)
class Document:
    """Passages to translate and the text between them, in the order of the file."""

    pieces: tuple[str | Passage, ...]

    @property
    def sentences(self) -> list[str]:
        """Everything to translate."""
        return [sentence for piece in self.pieces if isinstance(piece, Passage) for sentence in piece.sentences]

    def render(self, translations: Iterable[str]) -> str:
        """The document with a translation in the place of each sentence."""
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
    """Whether there is a letter or a digit."""
    return any(character.isalnum() for character in text)


def make_passages(
    text: str,
    split: Splitter,
    write: Callable[[str], str] = unchanged,
    least: Callable[[str], object] = has_words,
) -> list[str | Passage]:
    """A passage with the space around it; text that has not the `least` to translate stays as it is."""
    if not least(text):
        return [text] if text else []
    core = text.strip()
    start = text.index(core)
    before, after = text[:start], text[start + len(core) :]
    sentences, spaces = separate_spaces(split(core))
    pieces: list[str | Passage] = [before, Passage(sentences, spaces, write), after]
    return [piece for piece in pieces if piece != ""]


def separate_spaces(parts: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Sentences without the space that follows them, and that space."""
    sentences = tuple(part.rstrip() for part in parts)
    return sentences, tuple(part[len(sentence) :] for part, sentence in zip(parts, sentences, strict=True))


def splitter_of(language: str) -> Splitter:
    """Splits text of this language into sentences."""

    def split(text: str) -> list[str]:
        return split_sentences(text, language)

    return split


def whole(text: str) -> list[str]:
    """For text that is one sentence, or is to be translated as if it were."""
    return [text]
