"""Search on every backend: results, invariances and constraints."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
import torch

from lamina.errors import UsageError
from lamina.recipe.decode import SearchSettings
from lamina.search.candidates import best_candidates
from lamina.search.hypothesis import Hypothesis
from lamina.search.rules import FREE, forced_token, repeated_tokens, split_candidates
from lamina.search.sampling import SamplingSettings
from lamina.systems.published import SYSTEMS
from support import Searcher, every_backend, make_batch, pad, rows_of, small

GREEDY = SamplingSettings(temperature=0)
SHORT = SearchSettings(beam=4, max_length=(1.0, 3))
SOME = ["transformer", "msc-surface", pytest.param("average-attention", marks=pytest.mark.slow), "coordination"]
Found = list[list[Hypothesis]]


def texts(found: Found) -> list[list[list[int]]]:
    return [[hypothesis.tokens for hypothesis in each] for each in found]


def assert_same(found: Found, expected: Found) -> None:
    assert texts(found) == texts(expected)
    for some, others in zip(found, expected, strict=True):
        assert [one.score for one in some] == pytest.approx([other.score for other in others], abs=1e-4)


@every_backend
@pytest.mark.parametrize("system", SYSTEMS)
def test_every_system_is_searched_and_scores_are_the_models_own(system: str, backend: str) -> None:
    searcher, source_BS = Searcher(backend, small(system)), make_batch().source_BS
    found = searcher.search(source_BS, SHORT)
    for source, hypotheses in zip(rows_of(source_BS), found, strict=True):
        assert len(hypotheses) == 4
        assert [each.score for each in hypotheses] == sorted((each.score for each in hypotheses), reverse=True)
        assert len({tuple(each.tokens) for each in hypotheses}) == 4
        for each in hypotheses:
            assert each.tokens[-1] == 2
            assert 2 <= len(each.tokens) <= len(source) + 3 + 1
            log_probs = searcher.log_probs(source, [0, *each.tokens[:-1]])
            expected = float(log_probs.gather(1, torch.tensor(each.tokens)[:, None]).sum())
            assert each.log_prob == pytest.approx(expected, abs=1e-4)
            assert each.score == pytest.approx(expected / len(each.tokens), abs=1e-4)


@every_backend
@pytest.mark.parametrize("system", SOME)
def test_a_beam_of_one_is_greedy(system: str, backend: str) -> None:
    searcher, source_BS = Searcher(backend, small(system)), make_batch().source_BS
    one = SearchSettings(beam=1, max_length=(1.0, 5))
    assert_same(searcher.search(source_BS, one), searcher.draw(source_BS, one, GREEDY))


@every_backend
@pytest.mark.parametrize("system", SOME)
def test_batch_and_padding_change_nothing(system: str, backend: str) -> None:
    searcher, source_BS = Searcher(backend, small(system)), make_batch((5, 2, 7, 3, 6, 4, 9, 2)).source_BS
    together = searcher.search(source_BS, SHORT)
    alone = [searcher.search(torch.tensor([row]), SHORT)[0] for row in rows_of(source_BS)]
    assert_same(together, alone)
    assert_same(searcher.search_in_python(pad(rows_of(source_BS), left=True, extra=2), SHORT), together)


@every_backend
@pytest.mark.slow
def test_a_wide_beam_finds_the_best_of_all(backend: str) -> None:
    """Compares with an enumeration of all texts of up to two tokens."""
    searcher, source_BS = Searcher(backend, small()), make_batch().source_BS[:1]
    words = [token for token in range(23) if token not in (1, 2)]
    scores = {}
    for text in [text for length in (1, 2) for text in product(words, repeat=length)]:
        log_probs = searcher.log_probs(rows_of(source_BS)[0], [0, *text])
        tokens = torch.tensor([*text, 2])
        scores[*text, 2] = float(log_probs.gather(1, tokens[:, None]).sum()) / len(tokens)
    best = sorted(scores, key=scores.__getitem__, reverse=True)[:3]
    every = {"beam": len(words) ** 2 + len(words), "max_length": (0.0, 2)}
    wide = SearchSettings().model_copy(update=every)  # wider than users may ask for
    (found,) = searcher.search(source_BS, wide)
    assert [tuple(each.tokens) for each in found[:3]] == best


@every_backend
def test_a_prefix_is_respected(backend: str) -> None:
    searcher, source_BS = Searcher(backend, small()), make_batch().source_BS
    found = searcher.search(source_BS, SHORT, [[7, 8], [], [9]])
    assert all(each.tokens[:2] == [7, 8] for each in found[0])
    assert all(each.tokens[:1] == [9] for each in found[2])
    assert len(found[0]) == 4
    assert texts(found)[1] == texts(searcher.search(source_BS, SHORT))[1]
    assert_same(searcher.search_in_python(source_BS, SHORT, [[7, 8], [], [9]]), found)


@every_backend
def test_a_prefix_may_be_longer_than_the_limit(backend: str) -> None:
    short = SearchSettings(max_length=(0.0, 1))
    found = Searcher(backend, small()).search(make_batch().source_BS[:1], short, [[7, 8, 9]])
    assert [each.tokens for each in found[0]] == [[7, 8, 9, 2]]


@every_backend
def test_constraints_do_not_apply_to_a_prefix(backend: str) -> None:
    """Repeated n-grams, and eos below the minimum length."""
    strict = SearchSettings(beam=3, min_length=6, max_length=(0.0, 7), no_repeat_ngram=2)
    (found,) = Searcher(backend, small()).search(make_batch().source_BS[:1], strict, [[7, 7, 7, 7]])
    assert len(found) == 3
    for each in found:
        assert each.tokens[:4] == [7, 7, 7, 7]
        assert each.tokens[4] != 7
        assert len(each.tokens) >= 7


@every_backend
def test_length_limits_are_respected(backend: str) -> None:
    exact = SearchSettings(beam=3, min_length=4, max_length=(0.0, 4))
    found = Searcher(backend, small()).search(make_batch().source_BS, exact)
    assert all(len(each.tokens) == 5 for hypotheses in found for each in hypotheses)


@every_backend
def test_no_ngram_is_repeated(backend: str) -> None:
    searcher, source_BS = Searcher(backend, small()), make_batch().source_BS
    long = {"beam": 3, "min_length": 12, "max_length": (0.0, 12)}

    def repeats(found: Found) -> bool:
        pairs = [list(zip(each.tokens, each.tokens[1:], strict=False)) for group in found for each in group]
        return any(len(set(each)) < len(each) for each in pairs)

    assert repeats(searcher.search(source_BS, SearchSettings(**long)))
    blocked = searcher.search(source_BS, SearchSettings(**long, no_repeat_ngram=2))
    assert not repeats(blocked)
    assert_same(searcher.search_in_python(source_BS, SearchSettings(**long, no_repeat_ngram=2)), blocked)


@every_backend
def test_diverse_groups_differ_and_without_a_penalty_are_equal(backend: str) -> None:
    searcher, source_BS = Searcher(backend, small()), make_batch().source_BS
    alone = searcher.search(source_BS, SearchSettings(beam=2, max_length=(0.0, 4)))
    free = searcher.search(source_BS, SearchSettings(beam=4, diverse_groups=2, diversity=0.0, max_length=(0.0, 4)))
    for group, hypotheses in zip(alone, free, strict=True):
        assert sorted(texts([hypotheses])[0]) == sorted(texts([group, group])[0] + texts([group, group])[1])
    apart = searcher.search(source_BS, SearchSettings(beam=4, diverse_groups=4, diversity=100.0, max_length=(0.0, 4)))
    assert all(len({each.tokens[0] for each in hypotheses}) == 4 for hypotheses in apart)


@every_backend
def test_diverse_groups_report_the_models_own_scores(backend: str) -> None:
    searcher, source_BS = Searcher(backend, small()), make_batch().source_BS
    diverse = SearchSettings(beam=6, diverse_groups=3, diversity=2.0, max_length=(0.0, 4))
    found = searcher.search(source_BS, diverse)
    for source, hypotheses in zip(rows_of(source_BS), found, strict=True):
        assert len(hypotheses) == 6
        for each in hypotheses:
            log_probs = searcher.log_probs(source, [0, *each.tokens[:-1]])
            expected = float(log_probs.gather(1, torch.tensor(each.tokens)[:, None]).sum())
            assert each.log_prob == pytest.approx(expected, abs=1e-4)
    assert_same(searcher.search_in_python(source_BS, diverse), found)


@every_backend
def test_an_ensemble_of_one_model_is_the_model(backend: str) -> None:
    model, source_BS = small("surface-fusion"), make_batch().source_BS
    three, one = Searcher(backend, model, model, model), Searcher(backend, model)
    assert_same(three.search(source_BS, SHORT), one.search(source_BS, SHORT))


@every_backend
def test_an_ensemble_averages_probabilities(backend: str) -> None:
    models = [small("transformer"), small("transformer-post", d_model=24, heads=3)]
    together, source_BS = Searcher(backend, *models), make_batch().source_BS
    tokens_R = torch.zeros(3, dtype=torch.long)
    with torch.no_grad():
        found, _ = together.stepper.step(tokens_R, together.stepper.start(source_BS, 1))
    for source, distribution in zip(rows_of(source_BS), found.full(), strict=True):
        each = [Searcher(backend, model).log_probs(source, [0])[0].exp() for model in models]
        torch.testing.assert_close(distribution[0].exp(), (each[0] + each[1]) / 2, rtol=1e-5, atol=1e-6)


@every_backend
@pytest.mark.slow
def test_samples_follow_the_distribution(backend: str) -> None:
    searcher, source_BS = Searcher(backend, small()), make_batch().source_BS[:1].repeat(20_000, 1)
    many = SearchSettings(max_length=(0.0, 1))
    probs = searcher.log_probs(rows_of(source_BS)[0], [0])[0].exp()
    probs[[1, 2]] = 0  # no padding, and no eos below the minimum length

    def frequencies(how: SamplingSettings) -> torch.Tensor:
        found = searcher.draw(source_BS, many, how)
        tokens = [each.tokens[0] for hypotheses in found for each in hypotheses]
        counts = torch.bincount(torch.tensor(tokens), minlength=23)
        return counts / counts.sum()

    torch.testing.assert_close(frequencies(SamplingSettings()), probs / probs.sum(), atol=0.015, rtol=0)
    sharp = probs.sqrt().square().square()
    torch.testing.assert_close(frequencies(SamplingSettings(temperature=0.5)), sharp / sharp.sum(), atol=0.015, rtol=0)
    assert int((frequencies(SamplingSettings(top_k=3)) > 0).sum()) == 3
    kept = (probs / probs.sum()).sort(descending=True).values.cumsum(0)
    expected = int((kept < 0.5).sum()) + 1
    assert int((frequencies(SamplingSettings(top_p=0.5)) > 0).sum()) == expected
    again = [searcher.draw(source_BS, SHORT, SamplingSettings(seed=seed)) for seed in (4, 4, 5)]
    assert texts(again[0]) == texts(again[1]) != texts(again[2])


@every_backend
@pytest.mark.parametrize("everything", [False, True], ids=["one weight", "a norm"])
def test_nan_scores_never_win(backend: str, everything: bool) -> None:
    """Not even after a ReLU, which must propagate NaN."""
    model, source_BS = small(), make_batch().source_BS[:1]
    with torch.no_grad():
        if everything:
            model.decoder.layers[0].feed_forward_residual.norm.weight[3] = math.nan
        else:
            model.head.weight_VD[9] = math.nan
    assert Searcher(backend, model).search(source_BS, SHORT) == [[]]


@pytest.mark.parametrize("vocabulary", [4, 70, 9712])
@pytest.mark.parametrize("count", [1, 10])
def test_the_best_candidates_are_found_in_order(vocabulary: int, count: int) -> None:
    draw = torch.Generator().manual_seed(vocabulary)
    scores, total = torch.randn(3, 2, vocabulary, generator=draw), torch.randn(3, 2, generator=draw)
    normaliser = scores.logsumexp(dim=2, keepdim=True)
    found = best_candidates(total, scores, normaliser, count).to_host()
    possible = min(count, 2 * vocabulary)
    expected = (scores + (total[..., None] - normaliser)).flatten(1).topk(possible, dim=1)
    assert found.total_BN[:, :possible] == pytest.approx(expected.values.numpy(), abs=1e-6)
    places = found.row_BN * vocabulary + found.token_BN
    assert places[:, :possible].tolist() == expected.indices.tolist()
    assert (found.total_BN[:, possible:] == -math.inf).all()


def test_forced_tokens() -> None:
    prefix = np.array([5, 6, 7, 8])
    assert [forced_token(position, 3, prefix, 1, 2) for position in range(5)] == [6, 7, FREE, 2, 2]
    assert [forced_token(position, 1, prefix, 0, 3) for position in range(4)] == [5, 6, 7, 2]


@pytest.mark.parametrize(
    ("written", "size", "expected"),
    [
        ([4, 5, 4], 2, [5]),
        ([4, 5, 4, 6, 4], 2, [5, 6]),
        ([4, 5, 6, 4, 5], 3, [6]),
        ([4, 5], 3, []),
        ([4, 4], 1, [4, 4]),
    ],
)
def test_repeated_tokens(written: list[int], size: int, expected: list[int]) -> None:
    banned = np.zeros(9, np.int64)
    count = repeated_tokens(np.array(written), len(written), size, banned)
    assert banned[:count].tolist() == expected


def test_eos_outside_the_beam_is_neither_finished_nor_continued() -> None:
    sums, tokens = np.array([-1.0, -2.0, -3.0, -4.0]), np.array([2, 7, 2, 9])
    ended, going = np.zeros((2, 2), np.int64)
    assert split_candidates(sums, tokens, 2, 2, -math.inf, ended, going) == (1, 2)
    assert (ended[0], going.tolist()) == (0, [1, 3])
    assert split_candidates(sums, tokens, 2, 0, -math.inf, ended, going) == (0, 2)


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("backend", ["torch", "engine"])
def test_attention_is_that_of_the_target_to_the_source(system: str, backend: str) -> None:
    model, batch = small(system), make_batch()
    source, prefix = rows_of(batch.source_BS)[0], rows_of(batch.prefix_BT)[0]
    with torch.no_grad():
        expected = model.attention(torch.tensor([source]), torch.tensor([prefix]))
    assert {stream.shape for layer in expected for stream in layer} == {
        (1, model.config.heads, len(prefix), len(source))
    }
    engine = Searcher(backend, model).engine
    if engine is not None:
        for ours, theirs in zip(engine.attention(source, prefix), expected, strict=True):
            for stream, other in zip(ours, theirs, strict=True):
                torch.testing.assert_close(torch.from_numpy(stream.copy()), other[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("system", SYSTEMS)
def test_int8_is_close(system: str) -> None:
    model, batch = small(system), make_batch()
    source, prefix = rows_of(batch.source_BS)[0], rows_of(batch.prefix_BT)[0]
    exact, near = (Searcher(backend, model).log_probs(source, prefix) for backend in ("torch", "engine-int8"))
    assert not torch.equal(near, exact)
    assert float((near - exact).abs().mean()) < 0.2


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"baem": 3}, "baem: not an option. Did you mean `beam`?"),
        ({"lenpen": math.nan}, "lenpen: must be "),
        ({"beam": 0}, "beam: must be greater than or equal to 1, but is 0 instead."),
        ({"beam": 5, "diverse_groups": 2}, "beam: must be a multiple of diverse_groups 2, but is 5 instead."),
        (
            {"min_length": 9, "max_length": (0.0, 3)},
            "min_length: must be at most 3, the maximum length for the shortest source, but is 9",
        ),
    ],
)
def test_impossible_settings(own: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        SearchSettings().with_options(**own)


@pytest.mark.parametrize("own", [{"temperature": -1.0}, {"top_p": 0.0}, {"top_k": 0}])
def test_impossible_sampling(own: dict[str, float]) -> None:
    with pytest.raises(UsageError, match=next(iter(own))):
        SamplingSettings(**own)
