"""Everything that determines the content of a data folder."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lamina.base.files import StrPath, digest
from lamina.base.wording import listed
from lamina.corpus.filters import Filters
from lamina.corpus.m2 import M2File
from lamina.corpus.prepared import FORMAT
from lamina.corpus.reading import OneFile, TwoFiles, language_of
from lamina.errors import DataError, UsageError
from lamina.names import option
from lamina.text.pipeline import TextPipeline, find_text
from lamina.text.subwords import Kind

PairSource = TwoFiles | OneFile | M2File


def digest_input(path: Path) -> str:
    """SHA-256 of a file that the user gave."""
    try:
        return digest(path)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from error


@dataclass(frozen=True)
class TextOptions:
    """The options of `lamina prepare` that determine the text pipeline."""

    subwords: Kind = "sentencepiece"
    vocab_size: int | None = None  # None: 8,000, or no limit with given codes or segmented text
    bpe_codes: StrPath | None = None
    separate_vocab: bool = False
    pretokenized: bool = False
    lowercase: bool = False
    text_from: StrPath | None = None  # a data folder, run or model whose text pipeline is reused
    languages: tuple[str, str] | None = None  # None: from the names of the training files

    @property
    def kind(self) -> Kind:
        """The kind of subwords; given codes imply BPE."""
        return "bpe" if self.bpe_codes is not None and self.subwords == "sentencepiece" else self.subwords

    def named(self, languages: tuple[str, str] | None) -> TextOptions:
        """These options with the languages that the data name, unless languages or a pipeline are given."""
        return self if self.languages or self.text_from is not None else replace(self, languages=languages)

    def check(self) -> None:
        """Raise unless the options are compatible."""
        given = option("subwords", self.kind)
        if self.bpe_codes is not None and self.kind != "bpe":
            raise UsageError(f"{option('bpe_codes')} needs {option('subwords', 'bpe')}, not {given}.")
        if self.text_from is not None and (self.vocab_size, self.bpe_codes) != (None, None):
            omit = f"omit {option('vocab_size')} and {option('bpe_codes')}"
            raise UsageError(f"{option('text_from')} provides the subwords: {omit}.")
        own = self.separate_vocab or self.lowercase or self.kind != "sentencepiece" or self.languages
        if self.text_from is not None and own:
            names = [option(name) for name in ("subwords", "separate_vocab", "lowercase", "langs")]
            raise UsageError(f"{option('text_from')} provides the text pipeline: omit {listed(names)}.")
        if self.lowercase and self.kind != "sentencepiece":
            needed = option("subwords", "sentencepiece")
            raise UsageError(f"{option('lowercase')} needs {needed}, not {given}; lowercase the files instead.")
        if self.pretokenized and self.kind != "bpe":
            raise UsageError(f"{option('pretokenized')} needs {option('subwords', 'bpe')}, not {given}.")
        if self.text_from is not None:
            find_text(Path(self.text_from))

    def describe(self) -> dict[str, Any]:
        """The options as JSON, with digests of files."""
        pipeline = None if self.text_from is None else TextPipeline.load(find_text(Path(self.text_from)))
        return {
            "subwords": self.kind,
            "vocab_size": self.vocab_size,
            "bpe_codes": None if self.bpe_codes is None else digest_input(Path(self.bpe_codes)),
            "separate_vocab": self.separate_vocab,
            "pretokenized": self.pretokenized,
            "lowercase": self.lowercase,
            "text_from": None if pipeline is None else pipeline.digests(),
        }


@dataclass(frozen=True)
class Plan:
    """The inputs and options of `lamina prepare`."""

    train: PairSource
    valid: PairSource
    test: PairSource | None = None
    text: TextOptions = field(default_factory=TextOptions)
    filters: Filters = field(default_factory=Filters)
    sentences: bool = False  # keep sentence boundaries of the source
    max_source: int | None = None  # truncate sources to this number of subwords

    def check(self) -> None:
        """Raise unless options are compatible and inputs exist."""
        self.text.check()
        for split, source in self.splits().items():
            for path in source.paths:
                if path.is_dir():
                    raise DataError(f"{path}: is a folder, not a file ({split} split).")
                if not path.exists():
                    raise DataError(f"{path}: not found ({split} split).")
                if not path.is_file():
                    raise DataError(f"{path}: is not a regular file; `prepare` reads its inputs more than once.")
            if isinstance(source, TwoFiles):
                own = self.train.languages if isinstance(self.train, TwoFiles) and split != "train" else None
                source.check_direction(own or self.text.languages, option(split))

    def splits(self) -> dict[str, PairSource]:
        """The inputs by split name."""
        parts = {"train": self.train, "valid": self.valid, "test": self.test}
        return {name: source for name, source in parts.items() if source is not None}

    def find_languages(self) -> tuple[str, str]:
        """The given languages or those of a given pipeline, else the suffixes of the training files."""
        if self.text.languages is not None:
            return self.text.languages
        if self.text.text_from is not None:
            pipeline = TextPipeline.load(find_text(Path(self.text.text_from)))
            return pipeline.source.language, pipeline.target.language
        if not isinstance(self.train, TwoFiles):
            return ("source", "target")
        return language_of(self.train.source) or "source", language_of(self.train.target) or "target"

    def describe(self) -> dict[str, Any]:
        """The plan as JSON with a digest of every input; equal descriptions produce equal folders."""
        return {
            "format": FORMAT,
            "inputs": {
                split: [{"name": path.name, "sha256": digest_input(path)} for path in source.paths]
                for split, source in self.splits().items()
            },
            "fields": [getattr(source, "fields", None) for source in self.splits().values()],
            **self.text.describe(),
            "languages": list(self.find_languages()),
            "documents": {
                "sentences": self.sentences,
                "max_source": self.max_source,
                "line_breaks": [getattr(source, "line_break", None) for source in self.splits().values()],
            },
            "filters": {
                "active": list(self.filters.active),
                "max_characters": self.filters.max_characters,
                "max_ratio": self.filters.max_ratio,
            },
        }
