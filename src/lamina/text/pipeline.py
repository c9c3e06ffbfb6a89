"""The one way from text to ids and back, for training, translation and serving alike."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lamina.errors import DataError
from lamina.text.normalise import normalise
from lamina.text.subwords import Bpe, Kind, MarianPieces, SentencePiece, Subwords, Words, read_text
from lamina.text.tokenise import MosesTokeniser
from lamina.text.vocabulary import Vocabularies, Vocabulary

FORMAT = 1
DESCRIPTION = "text.json"
SIDES = ("source", "target")


@dataclass(frozen=True)
class LanguageText:
    """One language's text: normalise, tokenise where asked, cut into subwords."""

    language: str
    subwords: Subwords
    tokeniser: MosesTokeniser | None = None

    @property
    def vocabulary(self) -> Vocabulary:
        """The subwords and their ids."""
        return self.subwords.vocabulary

    def clean(self, text: str) -> str:
        """What the subwords are cut from."""
        text = normalise(text)
        return text if self.tokeniser is None else self.tokeniser.tokenise(text)

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Ids of many lines, each ending with eos."""
        return self.subwords.encode([self.clean(line) for line in lines])

    def decode(self, ids: Sequence[int]) -> str:
        """Text as people write it."""
        text = self.subwords.decode(ids)
        return text if self.tokeniser is None else self.tokeniser.detokenise(text)


@dataclass(frozen=True)
class TextPipeline:
    """Source and target text; saved with the data, and with every model trained on it."""

    source: LanguageText
    target: LanguageText
    kind: Kind
    files: dict[str, bytes]  # what `save` writes beside the description

    def save(self, folder: Path) -> None:
        """Write everything that `load` needs."""
        for name, content in self.files.items():
            (folder / name).write_bytes(content)
        description = {
            "format": FORMAT,
            "subwords": self.kind,
            "languages": [self.source.language, self.target.language],
            "moses": self.source.tokeniser is not None,
        }
        (folder / DESCRIPTION).write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8")

    def digests(self) -> dict[str, str]:
        """SHA-256 of every file: two pipelines with the same ones treat text alike."""
        return {name: hashlib.sha256(content).hexdigest() for name, content in sorted(self.files.items())}

    @classmethod
    def load(cls, folder: Path) -> TextPipeline:
        """What `save` wrote."""
        path = folder / DESCRIPTION
        try:
            description: Any = json.loads(read_text(path))
        except ValueError as error:
            raise DataError(f"{path}: not JSON ({error}).") from error
        if description.get("format") != FORMAT:
            raise DataError(f"{path}: format must be {FORMAT}, but is {description.get('format')} instead.")
        names = file_names(description["subwords"])
        try:
            files = {name: (folder / name).read_bytes() for name in names if (folder / name).exists()}
            return make_pipeline(description["subwords"], description["languages"], description["moses"], files)
        except KeyError as error:
            raise DataError(f"{folder}: lacks {error.args[0]}.") from error


def pipeline_of_words(vocabularies: Vocabularies) -> TextPipeline:
    """For text that is already cut into the entries of these vocabularies."""
    sides = (vocabularies.source, vocabularies.target)
    files = {f"vocabulary.{side}.txt": each.text().encode("utf-8") for side, each in zip(SIDES, sides, strict=True)}
    return make_pipeline("none", SIDES, False, files)


def file_names(kind: Kind) -> list[str]:
    """Files that a pipeline of this kind may have; a shared one stands for both sides."""
    if kind == "sentencepiece":
        return ["subwords.model", "subwords.source.model", "subwords.target.model"]
    if kind == "marian":
        return ["source.spm", "target.spm", "vocabulary.source.txt", "vocabulary.target.txt"]
    return ["bpe.codes", "vocabulary.source.txt", "vocabulary.target.txt"]


def make_pipeline(kind: Kind, languages: Sequence[str], moses: bool, files: dict[str, bytes]) -> TextPipeline:
    """A pipeline from the content of its files."""

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
