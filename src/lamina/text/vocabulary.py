"""A vocabulary: symbols and their ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from lamina.errors import DataError

BOS, PAD, EOS, UNK = 0, 1, 2, 3
SPECIALS = ("<s>", "<pad>", "</s>", "<unk>")


@dataclass(frozen=True, repr=False)
class Vocabulary:
    """Symbols in the order of their ids; the first four are always `<s> <pad> </s> <unk>`."""

    symbols: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.symbols[: len(SPECIALS)] != SPECIALS:
            raise DataError(f"A vocabulary must start with {' '.join(SPECIALS)}.")
        if len(self.ids) != len(self.symbols):
            duplicate = next(s for i, s in enumerate(self.symbols) if self.ids[s] != i)
            raise DataError(f"Duplicate vocabulary symbol `{duplicate}`.")

    @cached_property
    def ids(self) -> dict[str, int]:
        """The id of every symbol."""
        return {symbol: index for index, symbol in enumerate(self.symbols)}

    def __len__(self) -> int:
        return len(self.symbols)

    def __repr__(self) -> str:
        return f"Vocabulary({len(self):,} symbols)"

    def encode(self, tokens: Iterable[str]) -> list[int]:
        """Ids of the tokens and a final eos; an unknown token becomes `<unk>`."""
        return [*(self.ids.get(token, UNK) for token in tokens), EOS]

    def decode(self, ids: Sequence[int]) -> list[str]:
        """Symbols up to the first eos, without padding and bos."""
        end = ids.index(EOS) if EOS in ids else len(ids)
        return [self.symbols[index] for index in ids[:end] if index not in (BOS, PAD)]

    def text(self) -> str:
        """The vocabulary as a file: one symbol per line."""
        return "".join(f"{symbol}\n" for symbol in self.symbols)

    @classmethod
    def parse(cls, text: str) -> Vocabulary:
        """Parse the output of `text`."""
        return cls(tuple(text.removesuffix("\n").split("\n")))

    def save(self, path: Path) -> None:
        """Write `text` to a file."""
        path.write_bytes(self.text().encode("utf-8"))

    @classmethod
    def load(cls, path: Path) -> Vocabulary:
        """Load a vocabulary from a file."""
        try:
            return cls.parse(path.read_bytes().decode("utf-8"))
        except (OSError, UnicodeDecodeError, DataError) as error:
            raise DataError(f"{path}: not a vocabulary ({error}).") from error


@dataclass(frozen=True)
class Vocabularies:
    """The vocabularies of source and target, often the same."""

    source: Vocabulary
    target: Vocabulary
