"""Several outputs side by side: scores, confidence intervals, differences to the first and their p-values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from lamina.errors import UsageError
from lamina.scoring.metrics import DEFAULT_METRICS, build_metrics
from lamina.scoring.protocol import Array, Gold, Metric, measure
from lamina.scoring.significance import (
    SAMPLES,
    TRIALS,
    Interval,
    approximate_randomisation,
    bootstrap_scores,
    confidence_interval,
    paired_bootstrap,
)

Test = Literal["bootstrap", "randomisation", "both"]


@dataclass(frozen=True)
class Row:
    """One output under one metric; the baseline has no difference and no p."""

    system: str
    metric: str
    score: float
    interval: Interval
    signature: str
    higher_is_better: bool = True
    difference: float | None = None
    p_bootstrap: float | None = None
    p_randomisation: float | None = None

    def as_json(self) -> dict[str, Any]:
        """With the interval as two numbers."""
        return {**asdict(self), "interval": list(self.interval)}


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
    """A row per metric and output, the first output being the baseline; `samples` is 1000, or 10000 exchanges."""
    if not names or len(names) != len(hypotheses):
        raise UsageError(f"Every output must have a name, but there are {len(hypotheses)} and {len(names)}.")
    rows = []
    for metric in build_metrics(metrics, gold):
        statistics = [measure(metric, each) for each in hypotheses]
        rows.extend(compare_statistics(names, statistics, metric, test, samples, seed))
    return rows


def compare_statistics(
    names: Sequence[str], statistics: Sequence[Array], metric: Metric, test: Test, samples: int | None, seed: int
) -> list[Row]:
    """The rows of one metric."""
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
