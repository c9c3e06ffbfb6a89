"""Compare outputs: scores, confidence intervals, differences from the first and their p-values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from typing import Any, Literal, overload

from lamina.base.wording import counted
from lamina.errors import UsageError
from lamina.figures.tables import html_table, text_table
from lamina.names import nearest
from lamina.scoring.metrics import DEFAULT_METRICS, build_metrics
from lamina.scoring.protocol import Array, Gold, Interval, Metric, measure
from lamina.scoring.significance import (
    SAMPLES,
    TRIALS,
    approximate_randomisation,
    bootstrap_scores,
    confidence_interval,
    paired_bootstrap,
)

Test = Literal["bootstrap", "randomisation", "both"]
FEW = 50  # below this number of sentences, intervals and p-values are unreliable


@dataclass(frozen=True)
class Row:
    """The score of one output by one metric; the baseline has no difference and no p-value."""

    system: str
    metric: str
    score: float
    interval: Interval
    signature: str
    higher_is_better: bool = True
    difference: float | None = None
    p_bootstrap: float | None = None
    p_randomisation: float | None = None

    @property
    def value(self) -> str:
        """The score with its interval, to two decimal places."""
        return f"{self.score:.2f} ± {self.interval.half_width:.2f}"

    def as_json(self) -> dict[str, Any]:
        """A dictionary for `json.dumps`, with the interval as two numbers."""
        return {**asdict(self), "interval": list(self.interval)}


@dataclass(frozen=True, repr=False)
class Comparison(Sequence[Row]):
    """The rows of a comparison, with the baseline first for every metric, and the systems' translations.

    A metric's name selects its rows: `comparison["bleu"]`.
    """

    rows: Sequence[Row]
    test: Test = "bootstrap"
    translations: dict[str, list[str]] = field(default_factory=dict)  # by system
    sentences: int = FEW  # of the test set

    @overload
    def __getitem__(self, index: int) -> Row: ...

    @overload
    def __getitem__(self, index: str | slice) -> Sequence[Row]: ...

    def __getitem__(self, index: int | str | slice) -> Row | Sequence[Row]:
        if isinstance(index, str):
            names = dict.fromkeys(row.metric for row in self.rows)
            if index not in names:
                raise KeyError(f"{index}: not a metric of this comparison, {', '.join(names)}.{nearest(index, names)}")
            return [row for row in self.rows if row.metric == index]
        return self.rows[index]

    def __len__(self) -> int:
        return len(self.rows)

    def table(self) -> list[tuple[str, ...]]:
        """The cells of the table, header first."""
        tests = ("bootstrap", "randomisation") if self.test == "both" else (self.test,)
        cells: list[tuple[str, ...]] = [("metric", "system", "score", "difference", *(f"p ({each})" for each in tests))]
        for row in self.rows:
            if row.difference is None:
                cells.append((row.metric, row.system, row.value, "baseline", *("" for _ in tests)))
            else:
                found = {"bootstrap": row.p_bootstrap, "randomisation": row.p_randomisation}
                p_values = (f"{found[each]:.4f}" for each in tests)
                cells.append((row.metric, row.system, row.value, f"{row.difference:+.2f}", *p_values))
        return cells

    def notes(self) -> Iterator[str]:
        """How each metric was computed, and whether the test set is too small."""
        for row in self.rows:
            if row.difference is None:
                yield f"{row.metric}: {row.signature}{'' if row.higher_is_better else ' (lower is better)'}"
        if self.sentences < FEW:
            yield f"With only {counted(self.sentences, 'sentence')}, intervals and p-values are unreliable."

    def __repr__(self) -> str:
        return "\n".join([text_table(self.table()), "", *self.notes()])

    def _repr_html_(self) -> str:
        head, *rows = self.table()
        return f"{html_table(head, rows)}<p>{'<br>'.join(map(escape, self.notes()))}</p>"


def compare_outputs(
    names: Sequence[str],
    hypotheses: Sequence[Sequence[str]],
    gold: Gold,
    *,
    metrics: Sequence[str] = DEFAULT_METRICS,
    test: Test = "bootstrap",
    samples: int | None = None,
    seed: int = 1,
) -> list[Row]:
    """One row per metric and output; the first output is the baseline.

    `samples` defaults to 1,000 bootstrap samples and 10,000 randomisation trials.
    """
    if not names or len(names) != len(hypotheses):
        raise UsageError(f"There must be one name per output (outputs: {len(hypotheses)}, names: {len(names)}).")
    rows = []
    for metric in build_metrics(metrics, gold):
        statistics = [measure(metric, each) for each in hypotheses]
        rows.extend(compare_statistics(names, statistics, metric, test, samples, seed))
    return rows


def compare_statistics(
    names: Sequence[str], statistics: Sequence[Array], metric: Metric, test: Test, samples: int | None, seed: int
) -> list[Row]:
    """Make the rows of one metric."""
    rows: list[Row] = []
    kind = metric.signature, metric.higher_is_better
    baseline_NK = statistics[0]
    baseline_S = bootstrap_scores(metric, baseline_NK, samples or SAMPLES, seed)
    for name, own_NK in zip(names, statistics, strict=True):
        score = float(metric.scores(own_NK.sum(axis=0)[None])[0])
        if not rows:
            rows.append(Row(name, metric.name, score, confidence_interval(baseline_S), *kind))
            continue
        own_S = bootstrap_scores(metric, own_NK, samples or SAMPLES, seed)
        difference = score - rows[0].score
        p_bootstrap = paired_bootstrap(difference, baseline_S, own_S) if test != "randomisation" else None
        p_randomisation = None
        if test != "bootstrap":
            p_randomisation = approximate_randomisation(metric, baseline_NK, own_NK, samples or TRIALS, seed)
        interval = confidence_interval(own_S)
        rows.append(Row(name, metric.name, score, interval, *kind, difference, p_bootstrap, p_randomisation))
    return rows
