"""Moses tokenisation, as most papers prepare their text."""

from __future__ import annotations

from functools import cached_property
from typing import Any


class MosesTokeniser:
    """Splits words from punctuation and joins them again, by the rules of a language (sacremoses)."""

    def __init__(self, language: str) -> None:
        self.language = language

    @cached_property
    def _tokeniser(self) -> Any:
        from sacremoses import MosesTokenizer

        return MosesTokenizer(lang=self.language)

    @cached_property
    def _detokeniser(self) -> Any:
        from sacremoses import MosesDetokenizer

        return MosesDetokenizer(lang=self.language)

    def tokenise(self, text: str) -> str:
        """Tokenise text; tokens are separated by spaces."""
        return str(self._tokeniser.tokenize(text, escape=False, return_str=True))

    def detokenise(self, text: str) -> str:
        """Detokenised text."""
        return str(self._detokeniser.detokenize(text.split(), unescape=False))
