"""Three injected bugs that only occur on a GPU: the simulated GPU must detect each."""

from __future__ import annotations

import pytest
import torch

from gpu.ghost import DeviceMismatch, GhostGpu
from lamina.model import decoder
from lamina.model.layers.attention import additive_mask, mask_keys
from lamina.recipe.decode import SearchSettings
from lamina.search.candidates import Candidates, HostCandidates
from lamina.training.distributed import Ranks
from lamina.training.objective import Objective
from lamina.training.prefetch import TensorBatch, TensorUpdate
from lamina.training.statistics import Tally
from lamina.translation.backends import SourceBatch
from lamina.translation.torch_backend import TorchBackend
from support import make_batch, small

GPU = torch.device("cuda", 0)


def test_a_mask_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def on_the_cpu(valid_BM: torch.Tensor, keys_BHMK: torch.Tensor) -> torch.Tensor:
        return additive_mask(mask_keys(torch.ones(valid_BM.shape, dtype=torch.bool)), keys_BHMK.dtype)

    monkeypatch.setattr(decoder, "mask_memory", on_the_cpu)
    with GhostGpu(), pytest.raises(DeviceMismatch):
        small("transformer").to(GPU)(*(tensor.to(GPU) for tensor in make_batch()))


def test_a_missing_cpu_before_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_cpu(found: Candidates) -> HostCandidates:
        return HostCandidates(*torch.stack([part.double() for part in found]).numpy())

    monkeypatch.setattr(Candidates, "to_host", without_cpu)
    with GhostGpu(), pytest.raises((RuntimeError, TypeError)):
        list(TorchBackend([small("transformer").to(GPU)]).search([SourceBatch([[5, 2]])], SearchSettings()))


def test_a_wrong_device_for_the_second_rank() -> None:
    """The model is on the second GPU, its batches on the first."""
    with GhostGpu():
        model = small("transformer").to("cuda:1").train()
        objective = Objective(model, Ranks(0, 1, GPU), 0.1, "fp32", compiled=False)
        batch = TensorBatch(tuple(make_batch()), 11)  # type: ignore[arg-type]
        with pytest.raises(DeviceMismatch):
            objective.backward(TensorUpdate([batch], 11, 11.0), torch.amp.GradScaler("cuda", enabled=False), Tally(GPU))
