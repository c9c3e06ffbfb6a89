"""Contracts of torch and the CPU engine for every combination: two implementations of the same mathematics."""

from __future__ import annotations

import pytest
import torch

from lamina.recipe.decode import SearchSettings
from lamina.search.hypothesis import Hypothesis
from support import (
    VOCABULARY,
    Combination,
    Searcher,
    build_combination,
    every_combination,
    every_part,
    make_batch,
    rows_of,
)

SHORT = SearchSettings(beam=3, max_length=(1.0, 3))


@pytest.mark.parametrize("backend", ["torch", "engine"])
@every_combination
def test_step_by_step_equals_full_forward(combination: Combination, backend: str) -> None:
    check_steps(combination, backend)


@every_part
def test_step_by_step_equals_full_forward_in_int8(combination: Combination) -> None:
    check_steps(combination, "engine-int8")


def check_steps(combination: Combination, backend: str) -> None:
    """Three hypotheses per source diverge and swap, then one source is dropped."""
    searcher, beams = Searcher(backend, build_combination(combination)), 3
    source_BS = make_batch().source_BS
    stepper = searcher.stepper
    prefixes_RT = torch.zeros(len(source_BS) * beams, 1, dtype=torch.long)
    generator = torch.Generator().manual_seed(11)
    swap_R = torch.tensor([2, 0, 0, 4, 3, 5, 7, 8, 6])
    kept = torch.tensor([2, 0])
    with torch.no_grad():
        state = stepper.start(source_BS, beams)
        for position in range(6):
            log_probs, state = stepper.step(prefixes_RT[:, -1], state)
            if position in (2, 3, 5):  # before and after the swap, and at the end
                sources = rows_of(source_BS.repeat_interleave(beams, dim=0))
                expected = searcher.all_log_probs(sources, prefixes_RT.tolist())[:, -1]
                torch.testing.assert_close(log_probs.full().flatten(0, 1), expected, rtol=1e-5, atol=1e-5)
            if position == 2:
                state, prefixes_RT = stepper.reorder(state, swap_R), prefixes_RT[swap_R]
            if position == 3:
                state, source_BS = stepper.keep(state, kept), source_BS[kept]
                prefixes_RT = prefixes_RT.view(-1, beams, prefixes_RT.shape[1])[kept].flatten(0, 1)
            tokens_R = torch.randint(4, VOCABULARY, (len(prefixes_RT), 1), generator=generator)
            prefixes_RT = torch.cat([prefixes_RT, tokens_R], dim=1)


@every_combination
def test_a_compiled_search(combination: Combination) -> None:
    check_search(combination, "engine")


@every_part
def test_a_compiled_search_in_int8(combination: Combination) -> None:
    check_search(combination, "engine-int8")


def check_search(combination: Combination, backend: str) -> None:
    """Compiled search equals search in Python, and its results are bit-identical in any batch."""
    model, source_BS = build_combination(combination), make_batch().source_BS
    searcher = Searcher(backend, model)
    found = searcher.search(source_BS, SHORT)
    assert found == [searcher.search(torch.tensor([row]), SHORT)[0] for row in rows_of(source_BS)]
    in_python = searcher if backend == "engine-int8" else Searcher("torch", model)
    expected = in_python.search_in_python(source_BS, SHORT)
    assert texts(found) == texts(expected)
    for ours, theirs in zip(found, expected, strict=True):
        assert [each.log_prob for each in ours] == pytest.approx([each.log_prob for each in theirs], abs=1e-4)


def texts(found: list[list[Hypothesis]]) -> list[list[list[int]]]:
    return [[hypothesis.tokens for hypothesis in each] for each in found]
