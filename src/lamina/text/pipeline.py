"""The conversion of text to ids and back, shared by training, translation and serving."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, get_args

import numpy as np

from lamina.base.reading import damage_named, read_json
from lamina.errors import DataError, UsageError
from lamina.text.normalise import normalise
from lamina.text.sentences import split_sentences
from lamina.text.subwords import Bpe, Kind, MarianPieces, SentencePiece, Subwords, Words
from lamina.text.tokenise import MosesTokeniser
from lamina.text.vocabulary import BOS, Vocabularies, Vocabulary

FORMAT = 1
DESCRIPTION = "text.json"
SIDES = ("source", "target")


@dataclass(frozen=True, repr=False)
class LanguageText:
    """One side's text: normalised, tokenised if configured, and split into subwords."""

    language: str
    subwords: Subwords
    tokeniser: MosesTokeniser | None = None
    sentences: bool = False  # source: put `<s>` between the sentences of a document
    longest: int | None = None  # source: truncate to this many subwords

    def __repr__(self) -> str:
        return f"LanguageText({self.language}, {type(self.subwords).__name__}, {len(self.vocabulary):,} symbols)"

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary: subwords and their ids."""
        return self.subwords.vocabulary

    def clean(self, text: str) -> str:
        """Normalise and tokenise text, ready for subword segmentation."""
        text = normalise(text)
        return text if self.tokeniser is None else self.tokeniser.tokenise(text)

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Encode lines; the ids of each end with eos."""
        if isinstance(lines, str):
            raise UsageError("One text must be given as [text].")
        for line in lines:
            if not isinstance(line, str):
                raise UsageError(f"Every line must be a text, but one is {line!r} instead.")
        if not self.sentences:
            return self.subwords.encode([self.clean(line) for line in lines])
        documents = [split_sentences(normalise(line)) or [""] for line in lines]
        encoded = iter(self.subwords.encode([self.clean(each) for document in documents for each in document]))
        return [join_sentences(list(islice(encoded, len(document)))) for document in documents]

    def truncate(self, ids: list[int]) -> list[int]:
        """Truncate to `longest` ids, of which the last stays eos."""
        return ids if self.longest is None or len(ids) <= self.longest else [*ids[: self.longest - 1], ids[-1]]

    def decode(self, ids: Sequence[int]) -> str:
        """Detokenised text from ids."""
        text = self.subwords.decode(ids)
        return text if self.tokeniser is None else self.tokeniser.detokenise(text)


@dataclass(frozen=True, repr=False)
class TextPipeline:
    """The text of source and target; saved with the data, and with every model trained on it."""

    source: LanguageText
    target: LanguageText
    kind: Kind
    files: dict[str, bytes]  # subword models and vocabularies by file name

    def __repr__(self) -> str:
        return f"TextPipeline({self.source!r} → {self.target!r})"

    def save(self, folder: Path) -> None:
        """Write the pipeline to a folder."""
        for name, content in self.files.items():
            (folder / name).write_bytes(content)
        description: dict[str, Any] = {
            "format": FORMAT,
            "subwords": self.kind,
            "languages": [self.source.language, self.target.language],
            "moses": self.source.tokeniser is not None,
        }
        if self.source.sentences:
            description["sentences"] = True
        if self.source.longest is not None:
            description["longest"] = self.source.longest
        (folder / DESCRIPTION).write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8")

    @property
    def id_type(self) -> np.dtype[Any]:
        """The smallest type that holds every id of either vocabulary."""
        entries = max(len(self.source.vocabulary), len(self.target.vocabulary))
        return np.dtype(np.uint16 if entries <= 2**16 else np.uint32)

    def digests(self) -> dict[str, str]:
        """SHA-256 of every file: pipelines with the same digests are equivalent."""
        return {name: hashlib.sha256(content).hexdigest() for name, content in sorted(self.files.items())}

    def for_documents(self, sentences: bool, longest: int | None) -> TextPipeline:
        """A copy whose sources keep sentence boundaries or are truncated."""
        return replace(self, source=replace(self.source, sentences=sentences, longest=longest))

    @classmethod
    def load(cls, folder: Path) -> TextPipeline:
        """Load a pipeline from a folder."""
        path = folder / DESCRIPTION
        description = read_json(path)
        if description.get("format") != FORMAT:
            raise DataError(f"{path}: format must be {FORMAT}, but is {description.get('format')} instead.")
        with damage_named(path):
            kind, (source, target), moses = description["subwords"], description["languages"], description["moses"]
            if kind not in get_args(Kind) or not all(isinstance(language, str) for language in (source, target)):
                raise ValueError("`subwords` or `languages` is invalid")
        files = {name: (folder / name).read_bytes() for name in file_names(kind) if (folder / name).exists()}
        try:
            pipeline = make_pipeline(kind, (source, target), bool(moses), files)
            return pipeline.for_documents(bool(description.get("sentences", False)), description.get("longest"))
        except KeyError as error:
            raise DataError(f"{folder}: {error.args[0]} is missing.") from error
        except DataError as error:
            raise DataError(f"{folder}: {error}") from error
        except (RuntimeError, ValueError, IndexError) as error:  # raised by the libraries
            raise DataError(f"{folder}: its subword model is damaged ({str(error).splitlines()[0][:200]}).") from error


def find_text(place: Path) -> Path:
    """Find the text pipeline of a data folder, a run or a model."""
    for folder in (place, place / "text", place / "model"):
        if (folder / DESCRIPTION).is_file():
            return folder
    raise DataError(f"{place}: is not a data folder, run or model with a text pipeline.")


def find_languages(place: Path) -> tuple[str, str]:
    """The languages of source and target of a data folder, a run or a model."""
    path = find_text(place) / DESCRIPTION
    with damage_named(path):
        source, target = read_json(path)["languages"]
    return str(source), str(target)


def as_pipeline(given: TextPipeline | Vocabularies | str | os.PathLike[str]) -> TextPipeline:
    """A pipeline as given, loaded from a folder, or over the symbols of vocabularies."""
    if isinstance(given, TextPipeline):
        return given
    if isinstance(given, Vocabularies):
        return pipeline_of_words(given)
    return TextPipeline.load(find_text(Path(given)))


def join_sentences(sentences: Sequence[list[int]]) -> list[int]:
    """Join the ids of a document's sentences with `<s>`; only the last eos is kept."""
    joined = [token for sentence in sentences[:-1] for token in (*sentence[:-1], BOS)]
    return [*joined, *sentences[-1]]


def pipeline_of_words(vocabularies: Vocabularies) -> TextPipeline:
    """A pipeline for text whose space-separated tokens are the symbols of these vocabularies."""
    sides = (vocabularies.source, vocabularies.target)
    files = {f"vocabulary.{side}.txt": each.text().encode("utf-8") for side, each in zip(SIDES, sides, strict=True)}
    return make_pipeline("none", SIDES, False, files)


def file_names(kind: Kind) -> list[str]:
    """Files that a pipeline of this kind may have; `subwords.model` is shared by both sides."""
    if kind == "sentencepiece":
        return ["subwords.model", "subwords.source.model", "subwords.target.model"]
    if kind == "marian":
        return ["source.spm", "target.spm", "vocabulary.source.txt", "vocabulary.target.txt"]
    return ["bpe.codes", "vocabulary.source.txt", "vocabulary.target.txt"]


def make_pipeline(kind: Kind, languages: Sequence[str], moses: bool, files: dict[str, bytes]) -> TextPipeline:
    """Build a pipeline from the content of its files."""

    def side(index: int) -> LanguageText:
        name = SIDES[index]
        if kind == "sentencepiece":
            shared = files.get("subwords.model")
            subwords: Subwords = SentencePiece(files[f"subwords.{name}.model"] if shared is None else shared)
        else:
            vocabulary = Vocabulary.parse(files[f"vocabulary.{name}.txt"].decode("utf-8"))
            if kind == "marian":
                subwords = MarianPieces(files[f"{name}.spm"], vocabulary)
            else:
                codes = files["bpe.codes"].decode("utf-8") if kind == "bpe" else ""
                subwords = Bpe(codes, vocabulary) if kind == "bpe" else Words(vocabulary)
        return LanguageText(languages[index], subwords, MosesTokeniser(languages[index]) if moses else None)

    return TextPipeline(side(0), side(1), kind, files)
