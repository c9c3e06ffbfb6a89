"""Weighted target tokens (`train.edit_weight`) on a simulated GPU give the CPU's gradients."""

from __future__ import annotations

import pytest
import torch

from gpu.ghost import GhostGpu
from support import make_batch, small

GPU = torch.device("cuda", 0)


def gradients(system: str, device: torch.device) -> dict[str, torch.Tensor]:
    model, batch = small(system).to(device).train(), make_batch()
    importance_BT = torch.linspace(0.5, 3.0, batch.target_BT.numel()).view(batch.target_BT.shape)
    loss = model(*(tensor.to(device) for tensor in batch), 0.1, importance_BT.to(device))
    loss.total.backward()
    return {name: weight.grad.cpu() for name, weight in model.named_parameters() if weight.grad is not None}


@pytest.mark.parametrize("system", ["transformer", "surface-fusion", "pointer-generator", "msc-surface"])
def test_gradients_equal_the_cpu(system: str) -> None:
    with GhostGpu():
        there = gradients(system, GPU)
    here = gradients(system, torch.device("cpu"))
    assert there.keys() == here.keys()
    for name, expected in here.items():
        torch.testing.assert_close(there[name], expected, rtol=1e-3, atol=1e-4, msg=lambda m, n=name: f"{n}: {m}")
