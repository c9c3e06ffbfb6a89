"""How many operations an update is, about one kernel launch each: a GPU waits for the host where there are many."""

from __future__ import annotations

import pytest
import torch

from gpu.ghost import GhostGpu
from lamina.base.devices import autocast
from lamina.systems.build import build
from lamina.training.casting import cast_layers_at_once
from support import make_batch

GPU = torch.device("cuda", 0)
EACH_LAYER, REST = 86, 1150  # of an MSC encoder in bf16, forward and backward; everything else with six decoder layers


def operations(system: str, layers: int) -> int:
    """Of one update in bf16, at a width that is computed quickly: the number does not depend on it."""
    sizes = {"d_model": 16, "ffn_size": 16, "heads": 2, "vocab_size": 30}
    with GhostGpu() as gpu:
        model = build(system, size="small", encoder={"layers": layers}, **sizes).to(GPU).train()
        cast_layers_at_once(model)
        optimizer = torch.optim.Adam(model.parameters(), fused=True)
        batch = [tensor.to(GPU) for tensor in make_batch()]
        for _ in range(2):
            gpu.clear()
            optimizer.zero_grad()
            with autocast(GPU, "bf16"):
                loss = model(*batch, 0.1).mean()
            loss.backward()
            torch.nn.utils.get_total_norm([weight.grad for weight in model.parameters()])
            optimizer.step()
        return sum(gpu.kernels.values())


def test_msc_at_72_layers_keeps_within_its_budget() -> None:
    """Counted at 12 and 18 layers, and extended: every layer has the same."""
    few, more = operations("msc", 12), operations("msc", 18)
    each = (more - few) / 6
    assert each <= EACH_LAYER
    assert few - 12 * each <= REST
    print(f"msc-72: {few + 60 * each:.0f} operations an update")


@pytest.mark.parametrize(("system", "budget"), [("transformer", 1500), ("surface-fusion", 1700)])
def test_shallow_systems_keep_within_their_budget(system: str, budget: int) -> None:
    assert operations(system, 6) <= budget
