"""Number of operations per update, about one kernel launch each: too many make the GPU wait for the host."""

from __future__ import annotations

import pytest
import torch

from gpu.ghost import GhostGpu
from lamina.base.devices import autocast
from lamina.systems.build import build
from lamina.training.casting import cast_weights_together
from support import make_batch

GPU = torch.device("cuda", 0)
MSC_72 = 6000  # operations of an update in bf16


def operations(system: str, layers: int) -> int:
    """Count the operations of one bf16 update at a small width, which does not affect the number."""
    sizes = {"d_model": 16, "ffn_size": 16, "heads": 2, "vocab_size": 30}
    with GhostGpu() as gpu:
        model = build(system, size="small", encoder={"layers": layers}, **sizes).to(GPU).train()
        cast_weights_together(model)
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
    """Extrapolated from 6 and 12 layers, since every layer has the same number."""
    few, more = operations("msc", 6), operations("msc", 12)
    total = more + 60 * (more - few) / 6
    print(f"msc-72: {total:.0f} operations an update")
    assert total < MSC_72


@pytest.mark.parametrize(("system", "budget"), [("transformer", 1000), ("surface-fusion", 1200)])
def test_shallow_systems_keep_within_their_budget(system: str, budget: int) -> None:
    assert operations(system, 6) <= budget
