"""fairseq's `dict.LL.txt`: one symbol and its count per line, after four implicit special symbols."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor

from lamina.errors import DataError
from lamina.text.vocabulary import SPECIALS, Vocabularies, Vocabulary


def read_dictionary(path: Path) -> Vocabulary:
    """Read a vocabulary with fairseq's ids."""
    try:
        lines = path.read_bytes().decode("utf-8").split("\n")
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 at byte {error.start}.") from error
    symbols = []
    for number, line in enumerate(lines[:-1] if lines[-1] == "" else lines, start=1):
        symbol, _, count = line.rstrip("\r").rpartition(" ")
        if not symbol or not count.isdigit():
            raise DataError(f"{path}:{number}: must be a symbol and its count, but is `{line[:40]}` instead.")
        symbols.append(symbol)
    try:
        return Vocabulary((*SPECIALS, *symbols))
    except DataError as error:
        raise DataError(f"{path}: {error}") from error


def check_dictionaries(
    arguments: dict[str, Any], weights: dict[str, Tensor], vocabularies: Vocabularies, paths: tuple[Path, Path]
) -> None:
    """Raise unless the dictionaries match the checkpoint in size and, if it shares all embeddings, are equal."""
    for side, vocabulary, path in zip(
        ("encoder", "decoder"), (vocabularies.source, vocabularies.target), paths, strict=True
    ):
        embedding = weights.get(f"{side}.embed_tokens.weight")
        if embedding is not None and len(embedding) != len(vocabulary):
            raise DataError(
                f"{path}: has {len(vocabulary):,} entries, including the four special ones, but the checkpoint's "
                f"{side} has {len(embedding):,}; it is not this checkpoint's dictionary."
            )
    if arguments.get("share_all_embeddings") and vocabularies.source != vocabularies.target:
        raise DataError(
            f"{paths[0]} and {paths[1]} differ, but the checkpoint has one vocabulary for both sides; "
            "at least one is not this checkpoint's dictionary."
        )
