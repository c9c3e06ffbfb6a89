"""fairseq's `dict.LL.txt`: a symbol and its count on every line, after four symbols that are not written."""

from __future__ import annotations

from pathlib import Path

from lamina.errors import DataError
from lamina.text.vocabulary import SPECIALS, Vocabulary


def read_dictionary(path: Path) -> Vocabulary:
    """The vocabulary, with ids as fairseq counts them."""
    try:
        lines = path.read_bytes().decode("utf-8").split("\n")
    except FileNotFoundError as error:
        raise DataError(f"{path}: not found.") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 at byte {error.start}.") from error
    symbols = []
    for number, line in enumerate(lines[:-1] if lines[-1] == "" else lines, start=1):
        symbol, _, count = line.rstrip("\r").rpartition(" ")
        if not symbol or not count.isdigit():
            raise DataError(f"{path}:{number}: must be a symbol and its count, but is `{line}` instead.")
        symbols.append(symbol)
    return Vocabulary((*SPECIALS, *symbols))
