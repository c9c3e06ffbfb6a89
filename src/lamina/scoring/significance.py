"""Is one output better than another, or is the difference chance?

Two tests over a metric's sentence statistics, both paired, two-sided and reproducible under a seed. Δ is the difference
of the two corpus scores, s a resampled one; the 1 added on both sides keeps p above 0 (Riezler & Maxwell 2005, §3).

- Paired bootstrap (Koehn 2004): draw as many sentences as there are, with replacement, the same for both outputs.
  p = (1 + #{|Δ_s − mean Δ_s| ≥ |Δ|}) / (1 + S). sacreBLEU counts the upper tail only, so its p is smaller.
- Approximate randomisation (Riezler & Maxwell 2005): exchange the two outputs of each sentence with probability ½.
  p = (1 + #{|Δ_s| ≥ |Δ|}) / (1 + S).

Confidence intervals are the 2.5 and 97.5 percentiles of an output's bootstrap scores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from lamina.scoring.protocol import Array, Metric, measure

SAMPLES = 1000
TRIALS = 10000
CHUNK = 250  # resampled sets at a time, to bound memory
TOLERANCE = 1e-9  # sums in another order differ by rounding


class Interval(NamedTuple):
    """95 of 100 resampled scores lie between these."""

    low: float
    high: float

    @property
    def half_width(self) -> float:
        """The half-width, printed after ±."""
        return (self.high - self.low) / 2


def bootstrap_scores(metric: Metric, statistics_NK: Array, samples: int = SAMPLES, seed: int = 1) -> Array:
    """(S): corpus scores of resampled sentences; equal seeds draw equal sentences, which is what pairs two outputs."""
    generator, sentences = np.random.default_rng(seed), len(statistics_NK)

    def draw(count: int) -> Array:
        drawn_SN = generator.integers(sentences, size=(count, sentences))
        drawn_SN += np.arange(count)[:, None] * sentences
        counts = np.bincount(drawn_SN.ravel(), minlength=count * sentences)
        return counts.reshape(count, sentences).astype(np.float64)

    return np.concatenate([metric.scores(weights_SN @ statistics_NK) for weights_SN in in_chunks(draw, samples)])


def confidence_interval(scores_S: Array) -> Interval:
    """The 2.5 and 97.5 percentiles."""
    low, high = np.percentile(scores_S, [2.5, 97.5])
    return Interval(float(low), float(high))


def score_interval(metric: Metric, hypotheses: Sequence[str], samples: int = SAMPLES, seed: int = 1) -> Interval:
    """The confidence interval of one output's score."""
    return confidence_interval(bootstrap_scores(metric, measure(metric, hypotheses), samples, seed))


def paired_bootstrap(difference: float, baseline_S: Array, other_S: Array) -> float:
    """p of a difference, from the scores of the same resampled sentences for both outputs."""
    resampled_S = other_S - baseline_S
    return p_value(np.abs(resampled_S - resampled_S.mean()), difference)


def compare_seeds(
    metric: Metric, baseline: Sequence[Sequence[str]], others: Mapping[str, Sequence[Sequence[str]]], seed: int = 1
) -> dict[str, float]:
    """p of each system's difference from the baseline, where a system has one output for each of its seeds.

    Sentences are resampled, the same for all outputs; a system's score is the mean over its outputs. More seeds make
    that mean more stable, but do not count as more sentences.
    """

    def mean_scores(outputs: Sequence[Sequence[str]]) -> tuple[float, Array]:
        statistics = [measure(metric, output) for output in outputs]
        scores = np.mean([metric.scores(each_NK.sum(axis=0)[None])[0] for each_NK in statistics])
        return float(scores), np.mean([bootstrap_scores(metric, each_NK, seed=seed) for each_NK in statistics], axis=0)

    base, base_S = mean_scores(baseline)
    found = {name: mean_scores(outputs) for name, outputs in others.items()}
    return {name: paired_bootstrap(score - base, base_S, own_S) for name, (score, own_S) in found.items()}


def approximate_randomisation(
    metric: Metric, baseline_NK: Array, other_NK: Array, trials: int = TRIALS, seed: int = 1
) -> float:
    """p of the difference of two outputs, from exchanging their sentences."""
    generator, sentences = np.random.default_rng(seed), len(baseline_NK)
    baseline_K, other_K, change_NK = baseline_NK.sum(axis=0), other_NK.sum(axis=0), other_NK - baseline_NK
    difference = float(np.subtract(*metric.scores(np.stack([other_K, baseline_K]))))

    def toss(count: int) -> Array:
        return generator.integers(2, size=(count, sentences)).astype(np.float64)

    resampled = []
    for exchanged_SN in in_chunks(toss, trials):
        moved_SK = exchanged_SN @ change_NK
        resampled.append(metric.scores(other_K - moved_SK) - metric.scores(baseline_K + moved_SK))
    return p_value(np.abs(np.concatenate(resampled)), difference)


def p_value(resampled_S: Array, difference: float) -> float:
    """The share of resampled differences at least as large."""
    return float((1 + np.count_nonzero(resampled_S >= abs(difference) - TOLERANCE)) / (1 + len(resampled_S)))


def in_chunks(make: Callable[[int], Array], total: int) -> Iterator[Array]:
    """Yield `total` rows in chunks."""
    for start in range(0, total, CHUNK):
        yield make(min(CHUNK, total - start))
