"""The metric protocol: additive statistics per sentence, and a corpus score of their sum.

Since the corpus score is a function of summed statistics, scoring resampled sets of sentences costs one matrix product
and does not touch the text. Suffixes: N sentences, K statistics, S resampled sets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from lamina.base.wording import counted
from lamina.errors import DataError
from lamina.figures.tables import html_table

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Gold:
    """References to score against: one list of lines per reference, all of equal length.

    For `m2`, the only reference contains the lines of an `.m2` file.
    """

    references: Sequence[Sequence[str]]
    source: Sequence[str] | None = None
    lowercase: bool = False
    names: Sequence[str] = ()  # of the reference files, for messages
    language: str | None = None  # language of the references; selects BLEU's tokenizer
    tokenize: str | None = None  # a sacreBLEU tokenizer to use instead

    def __post_init__(self) -> None:
        if not self.references:
            raise DataError("There must be at least one reference.")
        for number, reference in enumerate(self.references[1:], start=2):
            if len(reference) != len(self.references[0]):
                named = len(self.names) == len(self.references)
                name, first = (self.names[number - 1], self.names[0]) if named else (f"Reference {number}", "the first")
                lines = counted(len(reference), "line")
                raise DataError(f"{name} has {lines}, but {first} has {len(self.references[0]):,}.")
        if self.source is not None and len(self.source) != len(self.references[0]):
            lines = counted(len(self.source), "line")
            raise DataError(f"The source has {lines}, but the first reference has {len(self.references[0]):,}.")


class Interval(NamedTuple):
    """A 95% confidence interval."""

    low: float
    high: float

    @property
    def half_width(self) -> float:
        """The half-width, printed after ±."""
        return (self.high - self.low) / 2


@dataclass(frozen=True, repr=False)
class Score:
    """A corpus score, its signature, which says how it was computed, and its details."""

    name: str
    score: float
    signature: str
    details: dict[str, float] = field(default_factory=dict)
    interval: Interval | None = None  # 95% confidence interval, from bootstrap samples, if requested

    def __float__(self) -> float:
        return self.score

    def __format__(self, spec: str) -> str:
        return format(self.score, spec) if spec else str(self)

    def __str__(self) -> str:
        return f"{self.name}  {self.value}{self.precision_and_recall}  {self.signature}"

    def __repr__(self) -> str:
        return f"Score({self.name!r}, {self.value}, {self.signature!r})"

    def _repr_html_(self) -> str:
        return html_table(("metric", "score", "signature"), [(self.name, self.value, self.signature)])

    @property
    def precision_and_recall(self) -> str:
        """Precision and recall of edits; empty for other metrics."""
        if "proposed" not in self.details:
            return ""
        return f"  (precision {self.details['precision']:.2f}, recall {self.details['recall']:.2f})"

    @property
    def value(self) -> str:
        """The score with its interval, to two decimal places."""
        return f"{self.score:.2f}" if self.interval is None else f"{self.score:.2f} ± {self.interval.half_width:.2f}"

    def as_json(self) -> dict[str, Any]:
        """A dictionary for `json.dumps`; the interval, if any, as two numbers."""
        content = {"name": self.name, "score": self.score, "signature": self.signature, "details": self.details}
        return content if self.interval is None else {**content, "interval": list(self.interval)}


class Metric(Protocol):
    """A metric with its references, which can score any number of outputs."""

    name: str
    sentences: int
    higher_is_better: bool

    @property
    def signature(self) -> str:
        """Everything that must be equal for two scores to be comparable."""
        ...

    def statistics(self, hypotheses: Sequence[str]) -> Array:
        """(N, K): additive statistics of each sentence."""
        ...

    def scores(self, sums_SK: Array) -> Array:
        """(S): the corpus score of each row of summed statistics."""
        ...

    def details(self, sums_K: Array) -> dict[str, float]:
        """Components of the corpus score, such as precisions and lengths."""
        ...


def measure(metric: Metric, hypotheses: Sequence[str]) -> Array:
    """Compute sentence statistics; the number of hypotheses must match the references."""
    if len(hypotheses) != metric.sentences:
        counts = f"{len(hypotheses):,} and {metric.sentences:,}"
        raise DataError(f"The numbers of hypotheses and references differ: {counts}.")
    if not hypotheses:
        raise DataError("Nothing to score: the output has no lines.")
    return metric.statistics(hypotheses)


def score(metric: Metric, hypotheses: Sequence[str]) -> Score:
    """Compute the corpus score of one output."""
    sums_K = measure(metric, hypotheses).sum(axis=0)
    return Score(metric.name, float(metric.scores(sums_K[None])[0]), metric.signature, metric.details(sums_K))
