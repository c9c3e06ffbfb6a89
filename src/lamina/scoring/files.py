"""Outputs, references and source from parallel files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lamina.base.reading import read_lines
from lamina.errors import DataError
from lamina.scoring.m2 import require_one_file
from lamina.scoring.protocol import Gold


def read_texts(
    hypotheses: Sequence[Path],
    references: Sequence[Path],
    source: Path | None = None,
    *,
    lowercase: bool = False,
    m2: bool = False,
    tokenize: str | None = None,
) -> tuple[list[list[str]], Gold]:
    """The lines of each output, and what they are measured against; files of unequal length are an error."""
    if m2:
        require_one_file(references)
    first = references[0]
    reference_lines = [list(read_lines(path)) for path in references]
    if m2:
        expected, unit = sum(line == "S" or line.startswith("S ") for line in reference_lines[0]), "sentences"
    else:
        expected, unit = len(reference_lines[0]), "lines"
    if not expected:
        raise DataError(f"{first}: has no {unit}.")

    def check(path: Path, lines: list[str]) -> list[str]:
        if len(lines) != expected:
            raise DataError(f"{first} has {expected:,} {unit}, but {path} has {len(lines):,} lines.")
        return lines

    outputs = [check(path, list(read_lines(path))) for path in hypotheses]
    names = [str(path) for path in references]
    if m2:
        return outputs, Gold(reference_lines, None, lowercase, names)
    for path, lines in zip(references[1:], reference_lines[1:], strict=True):
        check(path, lines)
    source_lines = None if source is None else check(source, list(read_lines(source)))
    suffixes = [suffix for suffix in first.suffixes if suffix not in (".gz", ".zst")]
    language = suffixes[-1].lstrip(".") if suffixes else None
    return outputs, Gold(reference_lines, source_lines, lowercase, names, language, tokenize)
