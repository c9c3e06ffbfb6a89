"""Significance tests: properties that hold for any metric, and agreement with sacreBLEU."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest
import sacrebleu
from sacrebleu.significance import PairedTest

from lamina.errors import UsageError
from lamina.scoring.compare import Row, compare_outputs
from lamina.scoring.metrics import build_metrics
from lamina.scoring.protocol import Array, Gold, measure
from lamina.scoring.significance import (
    SeedScores,
    approximate_randomisation,
    bootstrap_scores,
    compare_seeds,
    confidence_interval,
    paired_bootstrap,
    seeds_and_sentences,
    student_t_tails,
    welch,
)

WORDS = ["the", "a", "cat", "dog", "sat", "ran", "on", "under", "mat", "tree", "quickly", "and", "then", "was", "seen"]


def corrupt(lines: list[str], share: float, seed: int) -> list[str]:
    generator = random.Random(seed)
    return [
        " ".join(generator.choice(WORDS) if generator.random() < share else word for word in line.split())
        for line in lines
    ]


def make_references(count: int = 120) -> list[str]:
    generator = random.Random(1)
    return [" ".join(generator.choices(WORDS, k=generator.randint(5, 15))) for _ in range(count)]


REFERENCE = make_references()
GOLD = Gold([REFERENCE], source=corrupt(REFERENCE, 0.3, 9))
GOOD, SIMILAR, BAD = corrupt(REFERENCE, 0.20, 2), corrupt(REFERENCE, 0.22, 3), corrupt(REFERENCE, 0.4, 4)


def compare(*outputs: list[str], **options: object) -> list[Row]:
    return compare_outputs([f"s{at}" for at in range(len(outputs))], outputs, GOLD, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["bleu", "chrf", "ter", "multi-bleu", "gleu"])
def test_equal_outputs_have_p_1_and_worse_ones_a_small_p(name: str) -> None:
    base, equal, bad = compare(GOOD, GOOD, BAD, metrics=[name], test="both", samples=200)
    assert (base.difference, base.p_bootstrap, base.p_randomisation) == (None, None, None)
    assert (equal.difference, equal.p_bootstrap, equal.p_randomisation) == (0.0, 1.0, 1.0)
    assert bad.p_bootstrap == bad.p_randomisation == pytest.approx(1 / 201)
    assert bad.difference is not None
    assert (bad.difference < 0) is bad.higher_is_better
    assert base.interval.low < base.score < base.interval.high


def test_results_depend_only_on_the_seed() -> None:
    first = compare(GOOD, SIMILAR, test="both", samples=100, seed=5)
    assert first == compare(GOOD, SIMILAR, test="both", samples=100, seed=5)
    assert first != compare(GOOD, SIMILAR, test="both", samples=100, seed=6)


def test_resampled_scores_are_scores_of_resampled_text() -> None:
    (metric,) = build_metrics(["bleu"], GOLD)
    (found,) = bootstrap_scores(metric, measure(metric, GOOD), samples=1, seed=4)
    drawn = np.random.default_rng(4).integers(len(GOOD), size=len(GOOD))
    again = sacrebleu.corpus_bleu([GOOD[at] for at in drawn], [[REFERENCE[at] for at in drawn]])
    assert found == pytest.approx(again.score)


@pytest.mark.parametrize("name", ["bleu", "chrf"])
def test_p_values_agree_with_sacrebleu(name: str) -> None:
    theirs = {"bleu": sacrebleu.BLEU(), "chrf": sacrebleu.CHRF()}[name]
    (metric,) = build_metrics([name], GOLD)
    good, similar = measure(metric, GOOD), measure(metric, SIMILAR)
    results = {}
    for test in ("ar", "bs"):
        systems = [("good", GOOD), ("similar", SIMILAR)]
        _, scores = PairedTest(systems, {name: theirs}, [REFERENCE], test, n_samples=1000)()
        results[test] = scores[next(key for key in scores if key != "System")][1]
    p_randomisation = approximate_randomisation(metric, good, similar, trials=1000)
    assert p_randomisation == pytest.approx(results["ar"].p_value, abs=0.06)
    good_S, similar_S = bootstrap_scores(metric, good), bootstrap_scores(metric, similar)
    difference = float(np.subtract(*metric.scores(np.stack([similar.sum(axis=0), good.sum(axis=0)]))))
    p_bootstrap = paired_bootstrap(difference, good_S, similar_S)
    assert p_bootstrap == pytest.approx(p_randomisation, abs=0.06)
    assert results["bs"].p_value <= p_bootstrap  # one-sided
    assert confidence_interval(similar_S).half_width == pytest.approx(results["bs"].ci, rel=0.15)


def test_the_null_hypothesis_is_rarely_rejected() -> None:
    """Outputs of equal quality: about one in twenty falls below 0.05."""
    (metric,) = build_metrics(["multi-bleu"], GOLD)
    statistics = [measure(metric, corrupt(REFERENCE, 0.2, seed)) for seed in range(100, 140)]
    values = [
        approximate_randomisation(metric, one, other, trials=200)
        for one, other in zip(statistics[::2], statistics[1::2], strict=True)
    ]
    assert sum(value < 0.05 for value in values) <= 4
    assert 0.2 < float(np.mean(values)) < 0.8


def test_a_single_output_has_an_interval_and_every_output_a_name() -> None:
    assert all(row.difference is None and row.interval.low < row.score < row.interval.high for row in compare(GOOD))
    with pytest.raises(UsageError, match=r"^There must be one name per output \(outputs: 1, names: 2\)\.$"):
        compare_outputs(["one", "other"], [GOOD], GOLD)


class MeanOfNumbers:
    """A metric whose lines are numbers, so that systems can be simulated."""

    name, signature, higher_is_better = "mean", "", True

    def __init__(self, sentences: int) -> None:
        self.sentences = sentences

    def statistics(self, hypotheses: Sequence[str]) -> Array:
        return np.array([[float(line), 1.0] for line in hypotheses])

    def scores(self, sums_SK: Array) -> Array:
        return sums_SK[:, 0] / sums_SK[:, 1]

    def details(self, sums_K: Array) -> dict[str, float]:
        return {}


def simulate(seed_spread: float, gain: float, draw: np.random.Generator) -> list[list[str]]:
    """Simulate outputs of one system, 3 seeds on 30 sentences: mean, sentence effect, seed effect and noise."""
    ease = draw.normal(0, 0.5, 30)
    return [
        [str(number) for number in gain + ease + draw.normal(0, seed_spread) + draw.normal(0, 1, 30)] for _ in range(3)
    ]


@pytest.mark.parametrize("seed_spread", [0.0, 1.0])
def test_systems_that_differ_by_chance_are_rarely_significant(seed_spread: float) -> None:
    """Only the seeds differ: about one p in twenty is below 0.05, for any variance between seeds."""
    draw, metric = np.random.default_rng(1), MeanOfNumbers(30)
    rejected, rejected_by_sentences = 0, 0
    for _ in range(60):
        first, other = simulate(seed_spread, 0, draw), simulate(seed_spread, 0, draw)
        rejected += compare_seeds(metric, first, {"other": other})["other"] < 0.05
        rejected_by_sentences += compare_seeds(metric, first[:1], {"other": other[:1]})["other"] < 0.05
    assert rejected <= 0.12 * 60
    if seed_spread == 1.0:
        assert rejected_by_sentences > 0.5 * 60  # a test that ignores seeds mistakes their variance for a difference


def test_a_difference_beyond_seeds_and_sentences_is_significant() -> None:
    draw, metric = np.random.default_rng(2), MeanOfNumbers(30)
    plain, fused, equal = (simulate(0.2, gain, draw) for gain in (0, 2, 0))
    found = compare_seeds(metric, plain, {"fused": fused, "equal": equal, "itself": plain})
    assert found["fused"] < 0.01 < 0.05 < found["equal"] < found["itself"]
    assert found["itself"] == pytest.approx(1)


def test_p_is_never_below_that_of_the_seeds_alone() -> None:
    draw, metric = np.random.default_rng(3), MeanOfNumbers(30)
    bound = 0
    for _ in range(20):
        first, other = (SeedScores.of(metric, simulate(0, 0.3, draw), 1) for _ in range(2))
        seeds_alone = welch(other.mean - first.mean, [(first.variance, 2), (other.variance, 2)])
        found = seeds_and_sentences(first, other, metric.sentences)
        assert found >= seeds_alone
        bound += found == seeds_alone
    assert 0 < bound < 20


def test_student_t_has_its_published_quantiles() -> None:
    for t, freedom in [(12.706, 1), (4.303, 2), (2.776, 4), (2.228, 10), (1.962, 1000)]:
        assert student_t_tails(t, freedom) == pytest.approx(0.05, abs=2e-4)
    assert student_t_tails(0.0, 3) == 1
