"""The chunked loss against torch's own, in value and gradient."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from lamina.model.heads import cross_entropy
from lamina.model.heads.cross_entropy import smoothed_cross_entropy


def make(dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(2)
    features_ND = torch.randn(13, 6, generator=generator, dtype=dtype, requires_grad=True)
    weight_VD = torch.randn(17, 6, generator=generator, dtype=dtype, requires_grad=True)
    importance_N = torch.rand(13, generator=generator, dtype=dtype, requires_grad=True)
    return features_ND, weight_VD, torch.randint(0, 17, (13,), generator=generator), importance_N


@pytest.mark.parametrize("chunk", [1, 17 * 4, 17 * 13, 2**20])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_value_and_gradient_at_any_chunk_size(chunk: int, smoothing: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cross_entropy.CHUNK_LOGITS, "cpu", chunk)
    features_ND, weight_VD, target_N, importance_N = make()
    total, nll_N = smoothed_cross_entropy(features_ND, weight_VD, target_N, smoothing, importance_N)
    logits_NV = features_ND @ weight_VD.T
    losses_N = F.cross_entropy(logits_NV, target_N, label_smoothing=smoothing, reduction="none")
    expected = (losses_N * importance_N).sum()
    torch.testing.assert_close(total, expected)
    torch.testing.assert_close(nll_N, F.cross_entropy(logits_NV, target_N, reduction="none"))
    assert not nll_N.requires_grad
    inputs = (features_ND, weight_VD, importance_N)
    for found, wanted in zip(
        torch.autograd.grad(total * 3, inputs), torch.autograd.grad(expected * 3, inputs), strict=True
    ):
        torch.testing.assert_close(found, wanted)


def test_backward_may_run_twice() -> None:
    features_ND, weight_VD, target_N, _ = make()
    total, _ = smoothed_cross_entropy(features_ND, weight_VD, target_N, 0.1)
    once = torch.autograd.grad(total * 2, weight_VD, retain_graph=True)
    again = torch.autograd.grad(total * 2, weight_VD)
    torch.testing.assert_close(once, again)


def test_fp16_keeps_gradients_below_its_range() -> None:
    """The loss scale is applied to the total, after these gradients are computed."""
    features_ND, weight_VD, target_N, _ = make(torch.float32)
    tiny = torch.full((13,), 1e-9)
    with torch.autocast("cpu", torch.float16):
        total, _ = smoothed_cross_entropy(features_ND, weight_VD, target_N, 0.1, tiny)
    (found,) = torch.autograd.grad(total, weight_VD)
    (expected,) = torch.autograd.grad(smoothed_cross_entropy(features_ND, weight_VD, target_N, 0.1, tiny)[0], weight_VD)
    torch.testing.assert_close(found, expected, rtol=0.02, atol=1e-12)


def test_no_gradients_are_computed_under_no_grad() -> None:
    features_ND, weight_VD, target_N, _ = make()
    with torch.no_grad():
        total, _ = smoothed_cross_entropy(features_ND, weight_VD, target_N, 0.1)
    assert not total.requires_grad


def test_without_tokens_the_loss_is_zero() -> None:
    features_ND, weight_VD, target_N, _ = make()
    total, nll_N = smoothed_cross_entropy(features_ND[:0], weight_VD, target_N[:0], 0.1)
    total.backward()
    assert total == 0
    assert len(nll_N) == 0
    assert weight_VD.grad.abs().sum() == 0


def test_bf16_autocast_is_close_and_returns_full_precision_gradients() -> None:
    features_ND, weight_VD, target_N, _ = make(torch.float32)
    expected, _ = smoothed_cross_entropy(features_ND, weight_VD, target_N, 0.1)
    exact = torch.autograd.grad(expected, (features_ND, weight_VD))
    with torch.autocast("cpu", torch.bfloat16):
        total, _ = smoothed_cross_entropy(features_ND, weight_VD, target_N, 0.1)
    torch.testing.assert_close(total, expected, rtol=2e-2, atol=2e-2)
    for found, wanted in zip(torch.autograd.grad(total, (features_ND, weight_VD)), exact, strict=True):
        assert found.dtype == torch.float32
        torch.testing.assert_close(found, wanted, rtol=5e-2, atol=5e-2)
