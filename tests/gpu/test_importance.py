"""Target tokens that count differently (`train.edit_weight`), on a ghost GPU: the CPU's gradients, and no waits."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest
import torch

from gpu.ghost import GhostGpu
from gpu.test_training import GPU, trainer
from gpu.test_training import data as data  # the fixture
from lamina.corpus.batches import Position
from lamina.systems.published import SYSTEMS
from lamina.training.loading import load_update
from support import make_batch, small


def gradients(system: str, device: torch.device) -> dict[str, torch.Tensor]:
    model, batch = small(system).to(device).train(), make_batch()
    importance_BT = torch.linspace(0.5, 3.0, batch.target_BT.numel()).view(batch.target_BT.shape)
    loss = model(*(tensor.to(device) for tensor in batch), 0.1, importance_BT.to(device))
    loss.total.backward()
    return {name: weight.grad.cpu() for name, weight in model.named_parameters() if weight.grad is not None}


@pytest.mark.parametrize("system", SYSTEMS)
def test_gradients_are_those_of_the_cpu(system: str) -> None:
    with GhostGpu():
        there = gradients(system, GPU)
    here = gradients(system, torch.device("cpu"))
    assert there.keys() == here.keys()
    for name, expected in here.items():
        torch.testing.assert_close(there[name], expected, rtol=1e-3, atol=1e-4, msg=lambda m, n=name: f"{n}: {m}")


@pytest.mark.parametrize("system", ["transformer", "surface-fusion", "pointer-generator"])
def test_an_update_waits_for_nothing(system: str, data: Path, tmp_path: Path) -> None:
    with GhostGpu() as gpu:
        own = trainer(data, tmp_path, f"system={system}", "train.precision=bf16", "train.edit_weight=3.0")
        updates = [load_update(update, GPU) for update, _ in islice(own.batches.iterate(Position()), 3)]
        assert all(update.weight > update.tokens for update in updates)
        own.update(updates[0])  # scaler and optimizer make their state
        gpu.clear()
        for update in updates[1:]:
            own.update(update)
        assert not gpu.waits
        assert not gpu.to_host
        assert not gpu.to_device
        assert sum(gpu.async_copies.values()) == 4 * sum(len(update.batches) for update in updates[1:])
