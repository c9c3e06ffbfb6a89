"""Significance tests and confidence intervals.

Two tests over a metric's sentence statistics, both paired, two-sided and reproducible with a seed. Δ is the difference
of the two corpus scores, Δ_s a resampled one; adding 1 to both counts keeps p above 0 (Riezler & Maxwell 2005, §3).

- Paired bootstrap (Koehn 2004): resample N sentences with replacement, the same for both outputs.
  p = (1 + #{|Δ_s − mean Δ_s| ≥ |Δ|}) / (1 + S). sacreBLEU counts the upper tail only, so its p is smaller.
- Approximate randomisation (Riezler & Maxwell 2005): exchange the two outputs of each sentence with probability ½.
  p = (1 + #{|Δ_s| ≥ |Δ|}) / (1 + S).

A system trained with several seeds has two sources of randomness, seeds and sentences. `seeds_and_sentences` is Welch's
t-test over seeds with one more term: the variance that all seeds share because they are scored on the same sentences.

    Var(Δ) = s²_A / R_A + s²_B / R_B + max(0, Var_bootstrap(Δ) − I_A − I_B)

s² is the variance between the R seeds. The bootstrap variance of Δ (over sentences; a system's score is its mean over
seeds) contains the interaction I of seeds and sentences, which s² contains too, so it is subtracted once. The degrees
of freedom are Satterthwaite's.

Confidence intervals are the 2.5 and 97.5 percentiles of an output's bootstrap scores.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lamina.scoring.protocol import Array, Interval, Metric, measure

SAMPLES = 1000
TRIALS = 10000
CHUNK = 250  # resampled sets per matrix product, to bound memory
TOLERANCE = 1e-9  # for rounding of sums in a different order


def bootstrap_scores(metric: Metric, statistics_NK: Array, samples: int = SAMPLES, seed: int = 1) -> Array:
    """(S): corpus scores of resampled sentences; the same seed draws the same sentences, which pairs two outputs."""
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
    """Confidence interval of one output's score."""
    return confidence_interval(bootstrap_scores(metric, measure(metric, hypotheses), samples, seed))


def paired_bootstrap(difference: float, baseline_S: Array, other_S: Array) -> float:
    """p-value of a difference, from the scores of both outputs on the same resampled sentences."""
    resampled_S = other_S - baseline_S
    return p_value(np.abs(resampled_S - resampled_S.mean()), difference)


def compare_seeds(
    metric: Metric, baseline: Sequence[Sequence[str]], others: Mapping[str, Sequence[Sequence[str]]], seed: int = 1
) -> dict[str, float]:
    """p-value of each system's difference from the baseline; a system has one output per training seed.

    With several seeds, the test covers variation of seeds and sentences (`seeds_and_sentences`). With a single seed it
    covers sentences only: a paired bootstrap.
    """
    base = SeedScores.of(metric, baseline, seed)
    found = {}
    for name, outputs in others.items():
        other = SeedScores.of(metric, outputs, seed)
        if min(len(base.scores_R), len(other.scores_R)) > 1:
            found[name] = seeds_and_sentences(base, other, metric.sentences)
        else:
            means_S = base.resampled_SR.mean(axis=1), other.resampled_SR.mean(axis=1)
            found[name] = paired_bootstrap(other.mean - base.mean, *means_S)
    return found


@dataclass(frozen=True)
class SeedScores:
    """Scores of one system trained with R seeds, on the test set and on S resampled test sets."""

    scores_R: Array
    resampled_SR: Array

    @classmethod
    def of(cls, metric: Metric, outputs: Sequence[Sequence[str]], seed: int) -> SeedScores:
        """Score a system's outputs; the same bootstrap seed resamples the same sentences for every system."""
        statistics = [measure(metric, output) for output in outputs]
        scores_R = metric.scores(np.stack([each_NK.sum(axis=0) for each_NK in statistics]))
        return cls(scores_R, np.stack([bootstrap_scores(metric, each_NK, seed=seed) for each_NK in statistics], axis=1))

    @property
    def mean(self) -> float:
        return float(self.scores_R.mean())

    @property
    def variance(self) -> float:
        """Variance of the mean over seeds, on this test set."""
        return float(self.scores_R.var(ddof=1)) / len(self.scores_R)

    @property
    def interaction(self) -> float:
        """The part of `variance` due to the interaction of seeds and sentences."""
        seeds = len(self.scores_R)
        deviations_SR = self.resampled_SR - self.resampled_SR.mean(axis=1, keepdims=True)
        return float(deviations_SR.var(axis=0, ddof=1).mean()) / (seeds - 1)


def seeds_and_sentences(baseline: SeedScores, other: SeedScores, sentences: int) -> float:
    """p-value of a difference of means under variation of seeds and sentences, at least that of the seeds alone.

    Without this bound, p would be too small if a few seeds happen to agree: the sentences add degrees of freedom.
    """
    resampled_S = other.resampled_SR.mean(axis=1) - baseline.resampled_SR.mean(axis=1)
    shared = max(0.0, float(resampled_S.var(ddof=1)) - baseline.interaction - other.interaction)
    difference = other.mean - baseline.mean
    seeds = [(each.variance, len(each.scores_R) - 1) for each in (baseline, other)]
    return max(welch(difference, seeds), welch(difference, [*seeds, (shared, max(1, sentences - 1))]))


def welch(difference: float, variances: Sequence[tuple[float, int]]) -> float:
    """p-value of a difference whose variance is a sum of estimates, each with its degrees of freedom."""
    variance = sum(each for each, _ in variances)
    if variance == 0:
        return 1.0 if difference == 0 else 0.0
    freedom = variance**2 / sum(each**2 / freedom for each, freedom in variances)
    return student_t_tails(difference / math.sqrt(variance), freedom)


def student_t_tails(t: float, freedom: float) -> float:
    """P(|T| ≥ |t|) of Student's t: with T = √ν tan θ the density of θ is proportional to cos^(ν−1) θ."""
    angles = np.linspace(0, math.pi / 2, 20_001)
    density = np.cos(angles) ** (freedom - 1)
    below = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    return float(1 - np.interp(math.atan(abs(t) / math.sqrt(freedom)), angles, below / below[-1]))


def approximate_randomisation(
    metric: Metric, baseline_NK: Array, other_NK: Array, trials: int = TRIALS, seed: int = 1
) -> float:
    """p-value of the difference of two outputs, from randomly exchanging their sentences."""
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
    """Share of resampled differences that are at least as large, with 1 added to both counts."""
    return float((1 + np.count_nonzero(resampled_S >= abs(difference) - TOLERANCE)) / (1 + len(resampled_S)))


def in_chunks(make: Callable[[int], Array], total: int) -> Iterator[Array]:
    """Yield `total` rows in chunks."""
    for start in range(0, total, CHUNK):
        yield make(min(CHUNK, total - start))
