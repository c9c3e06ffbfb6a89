"""Incremental decoding caches no more than necessary."""

from __future__ import annotations

import pytest
import torch

from lamina.model.layers.attention import Attention
from lamina.model.states import map_tensors
from lamina.search.stepper import TorchState, TorchStepper
from support import make_batch, small


def count_cache(state: TorchState) -> int:
    sizes: list[int] = []

    def record(tensor: torch.Tensor) -> torch.Tensor:
        sizes.append(tensor.numel())
        return tensor

    map_tensors(record, state.cache.layers)
    return sum(sizes)


def advance(stepper: TorchStepper, state: TorchState, steps: int, rows: int) -> TorchState:
    for _ in range(steps):
        _, state = stepper.step(torch.full((rows,), 5), state)
    return state


@pytest.mark.parametrize(("attention", "constant"), [("average", True), ("merged", True), ("self", False)])
def test_averages_need_a_cache_of_constant_size(attention: str, constant: bool) -> None:
    stepper = TorchStepper(small(decoder={"attention": attention}))
    with torch.no_grad():
        early = advance(stepper, stepper.start(make_batch().source_BS, 1), 1, rows=3)
        late = advance(stepper, early, 80, rows=3)
    assert (count_cache(early) == count_cache(late)) is constant


@pytest.mark.slow
@pytest.mark.parametrize("attention", ["average", "merged"])
def test_running_sums_are_exact_over_long_targets(attention: str) -> None:
    """A sum in 16 bits would stop growing after a few hundred positions."""
    model = small(decoder={"attention": attention}).bfloat16()
    source_BS = make_batch().source_BS[:1]
    prefix_BT = torch.randint(4, 23, (1, 600), generator=torch.Generator().manual_seed(1))
    stepper = TorchStepper(model)
    with torch.no_grad():
        expected = model.log_probs(source_BS, prefix_BT)[:, -1].float()
        state = stepper.start(source_BS, 1)
        for position in range(600):
            log_probs, state = stepper.step(prefix_BT[:, position], state)
    torch.testing.assert_close(log_probs.full()[:, 0].float(), expected, rtol=0.05, atol=0.1)


def test_all_sources_can_be_dropped() -> None:
    stepper = TorchStepper(small())
    with torch.no_grad():
        state = stepper.keep(stepper.start(make_batch().source_BS, 2), torch.tensor([], dtype=torch.long))
        log_probs, _ = stepper.step(torch.tensor([], dtype=torch.long), state)
    assert log_probs.full().shape[0] == 0


def test_beams_share_the_memory_of_their_source() -> None:
    stepper = TorchStepper(small("msc-surface"))
    with torch.no_grad():
        state = stepper.start(make_batch().source_BS, 5)
        log_probs, wide = stepper.step(torch.full((15,), 5), state)
    assert wide.memory is state.memory
    assert log_probs.scores_BTV.shape[:2] == (3, 5)


def test_keys_and_values_of_a_memory_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    project = Attention.project_kv

    def counted(self: Attention, memory_BMD: torch.Tensor) -> object:
        calls.append(1)
        return project(self, memory_BMD)

    stepper = TorchStepper(small("msc-surface"))
    with torch.no_grad():
        state = stepper.start(make_batch().source_BS, 1)
        monkeypatch.setattr(Attention, "project_kv", counted)
        advance(stepper, state, 4, rows=3)
    assert not calls
