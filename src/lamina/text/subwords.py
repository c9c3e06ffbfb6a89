"""Subword segmentation: SentencePiece, Marian's SentencePiece, BPE over tokens, or tokens themselves."""

from __future__ import annotations

import io
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any, Literal

from lamina.errors import DataError, UsageError
from lamina.names import option
from lamina.text.vocabulary import BOS, EOS, PAD, SPECIALS, UNK, Vocabulary

Kind = Literal["sentencepiece", "bpe", "none", "marian"]
LANGUAGE_CODE = re.compile(r">>[^<>]*<<")
CONTINUED = "@@"  # subword-nmt's mark of a piece that the next one continues


class Subwords(ABC):
    """Maps normalised text to ids and back."""

    vocabulary: Vocabulary

    @abstractmethod
    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Encode lines; the ids of each end with eos."""

    @abstractmethod
    def decode(self, ids: Sequence[int]) -> str:
        """Decode the ids of one line."""


def escape(token: str) -> str:
    """The symbol of a token: one that looks like a special symbol gets a backslash."""
    return f"\\{token}" if token.lstrip("\\") in SPECIALS else token


def unescape(symbol: str) -> str:
    """The token of a symbol, undoing `escape`."""
    return symbol[1:] if symbol.startswith("\\") and symbol.lstrip("\\") in SPECIALS else symbol


class SentencePiece(Subwords):
    """SentencePiece on raw text, with byte fallback for unknown characters."""

    def __init__(self, model: bytes) -> None:
        from sentencepiece import SentencePieceProcessor

        self.processor = SentencePieceProcessor(model_proto=model)
        pieces = (self.processor.id_to_piece(index) for index in range(self.processor.get_piece_size()))
        self.vocabulary = Vocabulary(tuple(pieces))

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        return self.processor.encode(list(lines), add_eos=True)

    def decode(self, ids: Sequence[int]) -> str:
        """Join pieces into text."""
        return str(self.processor.decode([index for index in ids if index not in (BOS, PAD, EOS)]))


class Words(Subwords):
    """Tokens separated by spaces."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary

    def segment(self, line: str) -> list[str]:
        """Split a line into tokens."""
        return line.split()

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        return [self.vocabulary.encode(map(escape, self.segment(line))) for line in lines]

    def decode(self, ids: Sequence[int]) -> str:
        return " ".join(map(unescape, self.vocabulary.decode(ids)))


class MarianPieces(Words):
    """SentencePiece's pieces with the ids of a separate vocabulary, as in Marian."""

    def __init__(self, model: bytes, vocabulary: Vocabulary) -> None:
        from sentencepiece import SentencePieceProcessor

        super().__init__(vocabulary)
        self.processor = SentencePieceProcessor(model_proto=model)

    def segment(self, line: str) -> list[str]:
        """Split a line into pieces; a language code such as `>>fr<<` at its start is one token."""
        code = LANGUAGE_CODE.match(line)
        pieces = self.processor.encode(line[code.end() :] if code else line, out_type=str)
        return [code.group(), *pieces] if code else list(pieces)

    def decode(self, ids: Sequence[int]) -> str:
        """Join pieces into text."""
        return str(self.processor.decode(self.vocabulary.decode(ids))).replace("▁", " ").strip(" ")


class Bpe(Words):
    """Byte-pair encoding of words (Sennrich et al. 2016) by subword-nmt."""

    def __init__(self, codes: str, vocabulary: Vocabulary) -> None:
        super().__init__(vocabulary)
        self.bpe = read_codes(codes)

    def segment(self, line: str) -> list[str]:
        """Split a line's words into pieces, with `@@` after each but the last of a word."""
        return list(self.bpe.segment_tokens(line.split()))

    def decode(self, ids: Sequence[int]) -> str:
        return f"{super().decode(ids)} ".replace(f"{CONTINUED} ", "").strip(" ")


def read_codes(codes: str, name: str = "bpe.codes") -> Any:
    """subword-nmt's segmenter for the text of a codes file."""
    from subword_nmt.apply_bpe import BPE

    try:
        with redirect_stderr(io.StringIO()):
            segmenter = BPE(io.StringIO(codes), separator=CONTINUED)
    except (SystemExit, ValueError, IndexError) as error:  # BPE exits on a malformed line
        raise DataError(f"{name}: not a subword-nmt codes file: each line must have two symbols.") from error
    if segmenter.version not in ((0, 1), (0, 2)):
        raise DataError(f"{name}: not a subword-nmt codes file: unknown version.")
    return segmenter


def learn_sentencepiece(
    lines: Iterable[str], vocab_size: int, character_coverage: float = 1.0, lowercase: bool = False
) -> bytes:
    """Train a unigram model of at most `vocab_size` pieces; fewer if the text does not yield them.

    With `lowercase` the model itself folds case (and applies NFKC), in every program that uses it.
    """
    from sentencepiece import SentencePieceTrainer

    written = io.BytesIO()
    try:
        SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=written,
            vocab_size=vocab_size,
            hard_vocab_limit=False,
            byte_fallback=True,
            character_coverage=character_coverage,
            normalization_rule_name="nfkc_cf" if lowercase else "identity",  # text is normalised already
            max_sentence_length=100_000,
            bos_id=BOS,
            pad_id=PAD,
            eos_id=EOS,
            unk_id=UNK,
            num_threads=4,  # affects the result, so it is the same on every machine
            minloglevel=2,
        )
    except RuntimeError as error:
        if found := re.search(r"smaller than required_chars. \d+ vs (\d+)", str(error)):
            raise UsageError(
                f"{option('vocab_size')} must be at least {found[1]}, to cover the characters of the text, 256 bytes "
                f"and the special symbols, but is {vocab_size} instead."
            ) from error
        raise DataError(f"SentencePiece could not learn from the training text ({error}).") from error
    return written.getvalue()


def learn_bpe(words: Counter[str], vocab_size: int) -> str:
    """Learn a codes file from word counts, with merges for at most `vocab_size` symbols, characters included."""
    from subword_nmt.learn_bpe import learn_bpe as learn

    written = io.StringIO()
    counts = io.StringIO("".join(f"{word} {count}\n" for word, count in words.items()))
    with redirect_stderr(io.StringIO()):  # silence its progress bar
        learn(counts, written, vocab_size - len(SPECIALS), min_frequency=2, is_dict=True, total_symbols=True)
    return written.getvalue()


def count_vocabulary(counts: Counter[str], vocab_size: int | None) -> Vocabulary:
    """A vocabulary of the most frequent symbols; ties are broken alphabetically."""
    symbols = {escape(token): count for token, count in counts.items()}
    ranked = sorted(symbols, key=lambda symbol: (-symbols[symbol], symbol))
    limit = None if vocab_size is None else max(0, vocab_size - len(SPECIALS))
    return Vocabulary((*SPECIALS, *ranked[:limit]))


def read_text(path: Path) -> str:
    """Read a small UTF-8 file."""
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError as error:
        raise DataError(f"{path}: not found.") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 at byte {error.start}.") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from error
