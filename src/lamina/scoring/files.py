"""Read outputs, references and sources from parallel files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lamina.base.reading import read_lines
from lamina.base.wording import counted
from lamina.corpus.m2_format import parse_m2
from lamina.corpus.reading import language_of, read_test
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
    """Read outputs and their gold; files of unequal length are an error."""
    if m2:
        require_one_file(references)
    first = references[0]
    reference_lines = [list(read_lines(path)) for path in references]
    if m2:
        expected, unit = sum(line == "S" or line.startswith("S ") for line in reference_lines[0]), "sentence"
    else:
        expected, unit = len(reference_lines[0]), "line"
    if not expected:
        raise DataError(f"{first}: has no {unit}s.")

    def check(path: Path, lines: list[str]) -> list[str]:
        if len(lines) != expected:
            raise DataError(f"{first} has {counted(expected, unit)}, but {path} has {counted(len(lines), 'line')}.")
        return lines

    outputs = [check(path, list(read_lines(path))) for path in hypotheses]
    names = [str(path) for path in references]
    if m2:
        return outputs, Gold(reference_lines, None, lowercase, names)
    for path, lines in zip(references[1:], reference_lines[1:], strict=True):
        check(path, lines)
    source_lines = None if source is None else check(source, list(read_lines(source)))
    return outputs, Gold(reference_lines, source_lines, lowercase, names, language_of(first), tokenize)


def read_test_set(
    test: tuple[Path, Path],
    more: Sequence[Path] = (),
    *,
    lowercase: bool = False,
    m2: bool = False,
    tokenize: str | None = None,
) -> tuple[list[str], Gold]:
    """Read sources and gold; `more` are additional references.

    For m2 the target is an .m2 file; if the source is the same file, its S lines are the sources.
    """
    names = [str(path) for path in (test[1], *more)]
    if not m2:
        sources, target = read_test(*test)
        references = [target, *(list(read_lines(path)) for path in more)]
        return sources, Gold(references, sources, lowercase, names, language_of(test[1]), tokenize)
    require_one_file(names)
    lines = list(read_lines(test[1]))
    sentences = [" ".join(sentence.words) for sentence in parse_m2(lines, names[0])]
    sources = sentences if test[0] == test[1] else list(read_lines(test[0]))
    if not sentences:
        raise DataError(f"{test[1]}: has no sentences.")
    if len(sources) != len(sentences):
        counts = counted(len(sentences), "sentence"), counted(len(sources), "line")
        raise DataError(f"{test[1]} has {counts[0]}, but {test[0]} has {counts[1]}.")
    return sources, Gold([lines], None, lowercase, names)
