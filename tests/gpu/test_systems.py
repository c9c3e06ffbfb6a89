"""Every system on a simulated GPU: the CPU's results in every precision, without synchronisation."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from gpu.ghost import GhostGpu
from lamina.base.devices import Precision, autocast
from lamina.model.heads.cross_entropy import smoothed_cross_entropy
from lamina.recipe.decode import SearchSettings
from lamina.search.hypothesis import Hypothesis
from lamina.search.sampling import Sampler, SamplingSettings
from lamina.systems.published import SYSTEMS
from lamina.training.casting import cast_weights_together
from lamina.translation.backends import SourceBatch
from lamina.translation.torch_backend import TorchBackend
from support import make_batch, small

GPU, CPU = torch.device("cuda", 0), torch.device("cpu")
SOURCES = [[5, 6, 7, 2], [11, 2], [20, 21, 22, 2]]
every_system = pytest.mark.parametrize("system", SYSTEMS)
some_systems = pytest.mark.parametrize("system", ["transformer", "msc-surface", "pointer-generator"])


@every_system
def test_gradients_equal_the_cpu_without_synchronisation(system: str) -> None:
    with GhostGpu() as gpu:
        model, batch = small(system).to(GPU).train(), [tensor.to(GPU) for tensor in make_batch()]
        gpu.clear()
        model(*batch, 0.1).mean().backward()
        assert not gpu.waits
        assert not gpu.to_host
        assert not gpu.to_device
        there = {name: weight.grad.cpu() for name, weight in model.named_parameters() if weight.grad is not None}
    model = small(system).train()
    model(*make_batch(), 0.1).mean().backward()
    here = {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}
    assert there.keys() == here.keys()
    for name, expected in here.items():
        torch.testing.assert_close(there[name], expected, rtol=1e-3, atol=1e-5, msg=lambda m, n=name: f"{n}: {m}")


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
@every_system
def test_a_16_bit_update_does_not_synchronise(system: str, precision: Precision) -> None:
    with GhostGpu() as gpu:
        model = small(system, dropout=0.1).to(GPU).train()
        cast_weights_together(model)
        optimizer = torch.optim.Adam(model.parameters(), fused=True)
        scaler = torch.amp.GradScaler("cuda", enabled=precision == "fp16", init_scale=64.0)
        batch = [tensor.to(GPU) for tensor in make_batch()]
        for real in (False, True):  # scaler and optimizer create their state in the first
            gpu.clear()
            optimizer.zero_grad()
            with autocast(GPU, precision):
                weights = [weight.sum() for weight in model.parameters()]
                loss = model(*batch, 0.1).mean() if real else torch.stack(weights).sum()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        assert not gpu.waits
        assert not gpu.to_host
        assert not gpu.to_device
        assert all(weight.grad is None or weight.grad.isfinite().all() for weight in model.parameters())


@every_system
def test_search_equals_the_cpu_and_synchronises_once_per_step(system: str) -> None:
    check_search(system, {}, None)


@some_systems
def test_constrained_search_equals_the_cpu_and_synchronises_once_per_step(system: str) -> None:
    check_search(system, {"no_repeat_ngram": 2, "min_length": 3}, [[7, 8], [], [9]])


def check_search(system: str, options: dict[str, Any], prefixes: list[list[int]] | None) -> None:
    settings = SearchSettings(**{"beam": 3, "max_length": (0.0, 6), **options})
    with GhostGpu() as gpu:
        there = search_within_budget(gpu, system, settings, prefixes)
    (here,) = TorchBackend([small(system)]).search([SourceBatch(SOURCES, prefixes)], settings)
    for one, other in zip(there, here, strict=True):
        assert [each.tokens for each in one] == [each.tokens for each in other]
        assert [each.log_prob for each in one] == pytest.approx([each.log_prob for each in other], abs=1e-3)


def search_within_budget(
    gpu: GhostGpu, system: str, settings: SearchSettings, prefixes: list[list[int]] | None = None
) -> list[list[Hypothesis]]:
    """Search in fp32 synchronises only for one copy to the host per step and one before the first."""
    model = small(system).to(GPU)
    backend = TorchBackend([model])
    backend.precision = "fp32"
    steps, step = [], model.step
    model.step = lambda *args: (steps.append(args), step(*args))[1]  # type: ignore[method-assign]
    gpu.clear()
    (found,) = backend.search([SourceBatch(SOURCES, prefixes)], settings)
    assert len(steps) >= 4
    assert not gpu.waits
    assert sum(gpu.to_host.values()) <= 1 + len(steps)
    assert sum(gpu.to_device.values()) == 1  # the sources themselves
    return found


@some_systems
def test_search_in_16_bits_is_close(system: str) -> None:
    settings = SearchSettings(beam=2, max_length=(0.0, 4))
    with GhostGpu():
        backend = TorchBackend([small(system).to(GPU)])
        assert backend.precision == "bf16"
        (there,) = backend.search([SourceBatch(SOURCES)], settings)
    (here,) = TorchBackend([small(system)]).search([SourceBatch(SOURCES)], settings)
    for one, other in zip(there, here, strict=True):
        assert one[0].log_prob == pytest.approx(other[0].log_prob, rel=0.1, abs=0.3)


def test_diverse_beams_synchronise_once_per_step() -> None:
    with GhostGpu() as gpu:
        search_within_budget(gpu, "transformer", SearchSettings(beam=4, diverse_groups=2, max_length=(0.0, 6)))


def test_sampling_synchronises_once_per_step() -> None:
    settings = SearchSettings(max_length=(0.0, 8))
    with GhostGpu() as gpu:
        backend = TorchBackend([small("transformer").to(GPU)])
        generator = torch.Generator().manual_seed(1)
        gpu.clear()
        backend.sample(SourceBatch(SOURCES), Sampler(settings, SamplingSettings(top_k=5), generator, 2))
        assert not gpu.waits
        assert sum(gpu.to_host.values()) <= 1 + 9 + 2  # lengths, steps, and at the end the sums and the texts


@pytest.mark.parametrize(("smoothing", "certainty"), [(0.0, 0.99), (0.0, 0.999), (0.1, 0.99)])
def test_bf16_gradients_of_confident_targets_are_accurate(smoothing: float, certainty: float) -> None:
    """Error against fp64 within 2× of that of autocast logits with torch's cross-entropy."""
    torch.manual_seed(3)
    tokens, vocabulary, width = 64, 50, 16
    features, weight = torch.randn(tokens, width), torch.randn(vocabulary, width)
    target = torch.randint(0, vocabulary, (tokens,))
    features = weight[target] / weight[target].norm(dim=1, keepdim=True) ** 2  # logit 1 of the target, before scaling
    scale = torch.linspace(0.1, 400, 4000)
    chance = torch.stack([(s * features @ weight.T).softmax(1).gather(1, target[:, None]).mean() for s in scale])
    features = features * scale[(chance - certainty).abs().argmin()]

    def gradient(kind: str) -> torch.Tensor:
        dtype = torch.float64 if kind == "exact" else torch.float32
        with GhostGpu():
            own = features.to(dtype).to(GPU).requires_grad_()
            matrix, goal = weight.to(dtype).to(GPU), target.to(GPU)
            with torch.autocast("cuda", torch.bfloat16, enabled=kind != "exact"):
                if kind == "ordinary":
                    logits = torch.nn.functional.linear(own, matrix)
                    loss = torch.nn.functional.cross_entropy(logits, goal, label_smoothing=smoothing, reduction="sum")
                else:
                    loss, _ = smoothed_cross_entropy(own, matrix, goal, smoothing)
            loss.backward()
            return own.grad.cpu().double()

    exact = gradient("exact")
    ours, ordinary = ((gradient(kind) - exact).norm() / exact.norm() for kind in ("ours", "ordinary"))
    assert ours <= 2 * ordinary + 1e-6
