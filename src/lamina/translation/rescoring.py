"""A model's scores of given translations."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from lamina.base.files import StrPath
from lamina.errors import DataError
from lamina.search.hypothesis import Hypothesis
from lamina.text.vocabulary import EOS, SPECIALS
from lamina.translation.translator import Translator

if TYPE_CHECKING:
    from lamina.text.pipeline import LanguageText

CHUNK = 2000  # pairs in memory
LONGEST_TARGET = 2048  # tokens


@dataclass(frozen=True)
class Given:
    """A source and a translation to score: a text, which is segmented, or tokens, which end with eos."""

    number: int  # of its line or pair, from 1
    source: str
    translation: str | Sequence[str]
    file: StrPath | None = None  # where it was read

    @property
    def place(self) -> str:
        """The place to name in an error message."""
        return f"pair {self.number}" if self.file is None else f"{self.file}:{self.number}"


def rescore_all(
    translator: Translator, pairs: Iterable[Given], lenpen: float | None
) -> Iterator[tuple[Given, int, Hypothesis]]:
    """Score translations; yield each with the number of source tokens dropped and its score."""
    penalty = translator.settings.with_options(lenpen=lenpen).lenpen
    pairs = iter(pairs)
    while chunk := list(islice(pairs, CHUNK)):
        sources, cuts = translator.encode([given.source for given in chunk])
        targets = [to_ids(translator.text.target, given) for given in chunk]
        for given, cut, found in zip(chunk, cuts, translator.rescore(sources, targets, penalty), strict=True):
            if not math.isfinite(found.log_prob):
                raise DataError(f"{given.place}: log p is not finite; the model's weights are damaged.")
            yield given, cut, found


def to_ids(target: LanguageText, given: Given) -> list[int]:
    """Ids of a translation, ending with eos."""
    if isinstance(given.translation, str):
        ids = target.encode([given.translation])[0]
    elif given.translation[-1] == SPECIALS[EOS]:
        ids = target.vocabulary.encode(given.translation[:-1])
    else:
        last = given.translation[-1]
        raise DataError(f"{given.place}: the tokens must end with {SPECIALS[EOS]}, but end with `{last}` instead.")
    if len(ids) > LONGEST_TARGET:
        raise DataError(f"{given.place}: its target has {len(ids):,} tokens; at most {LONGEST_TARGET:,} can be scored.")
    return ids
