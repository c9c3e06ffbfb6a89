"""Label-smoothed cross-entropy over a large vocabulary in little memory.

    LS_n = (1-ε)·nll_n + (ε/V)·Σ_v(-log p_nv)         total = Σ_n w_n·LS_n

The vocabulary logits exist for one chunk of tokens at a time. The gradient of a chunk's logits is at hand as
soon as its log-probabilities are, so the gradients of the features and of the softmax matrix are formed in the
forward pass: three vocabulary products in all, as many as the plain way, and nothing is recomputed.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

CHUNK_LOGITS = 2**23  # alive at a time: 32 MB in fp32, and as much again for the log-probabilities


def smoothed_cross_entropy(
    features_ND: Tensor,
    weight_VD: Tensor,
    target_N: Tensor,
    smoothing: float,
    importance_N: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Σ_n w_n·LS_n, and every token's plain −log p (detached). Without `importance_N` every w_n is 1."""
    if importance_N is None:
        importance_N = features_ND.new_ones(len(target_N))
    return _ChunkedCrossEntropy.apply(  # type: ignore[no-untyped-call]
        features_ND, weight_VD, target_N, importance_N, smoothing, torch.is_grad_enabled()
    )


def spread(values_N: Tensor, real_BT: Tensor) -> Tensor:
    """Values of real tokens back at their places, 0 at padding."""
    return values_N.new_zeros(real_BT.shape).masked_scatter(real_BT, values_N)


class _ChunkedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        features_ND: Tensor,
        weight_VD: Tensor,
        target_N: Tensor,
        importance_N: Tensor,
        smoothing: float,
        differentiable: bool,
    ) -> tuple[Tensor, Tensor]:
        tokens, vocabulary = len(target_N), len(weight_VD)
        precise = torch.promote_types(features_ND.dtype, torch.float32)
        product_type = _product_type(features_ND)
        # fp16 gradients here would miss the loss scale, which is applied to the total only afterwards
        gradient_type = precise if product_type == torch.float16 else product_type
        with torch.autocast(features_ND.device.type, enabled=False):
            features_ND, matrix_VD = features_ND.to(product_type), weight_VD.to(product_type)
            gradient_VD = weight_VD.to(gradient_type) if differentiable else matrix_VD
            nll_N, smoothed_N = features_ND.new_empty(2, tokens, dtype=precise).unbind()
            if differentiable:
                features_grad_ND = torch.empty_like(features_ND, dtype=gradient_type)
                weight_grad_VD = torch.zeros_like(weight_VD, dtype=precise)
            size = max(1, min(tokens, CHUNK_LOGITS // vocabulary))
            logits_CV = features_ND.new_empty(size, vocabulary)  # reused, so that memory is touched only once
            buffer_CV = torch.empty_like(logits_CV, dtype=precise)
            for start in range(0, tokens, size):
                chunk = slice(start, start + size)
                features_CD, target_C1 = features_ND[chunk], target_N[chunk, None]
                rows = len(features_CD)
                torch.mm(features_CD, matrix_VD.T, out=logits_CV[:rows])
                log_probs_CV = torch.log_softmax(logits_CV[:rows], dim=-1, dtype=precise, out=buffer_CV[:rows])
                nll_N[chunk] = -log_probs_CV.gather(1, target_C1)[:, 0]
                smoothed_N[chunk] = (1 - smoothing) * nll_N[chunk] - smoothing * log_probs_CV.mean(dim=-1)
                if differentiable:
                    grad_CV = log_probs_CV.exp_().sub_(smoothing / vocabulary)
                    grad_CV.scatter_add_(1, target_C1, torch.full_like(grad_CV[:, :1], smoothing - 1))
                    grad_CV = grad_CV.mul_(importance_N[chunk, None]).to(gradient_type)
                    torch.mm(grad_CV, gradient_VD, out=features_grad_ND[chunk])
                    _add_product(weight_grad_VD, grad_CV.T, features_CD.to(gradient_type))
        if differentiable:
            ctx.save_for_backward(features_grad_ND, weight_grad_VD, smoothed_N)
        ctx.mark_non_differentiable(nll_N)
        return (smoothed_N * importance_N).sum(), nll_N

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        features_grad_ND, weight_grad_VD, smoothed_N = ctx.saved_tensors
        return features_grad_ND * grad, weight_grad_VD * grad, None, smoothed_N * grad, None, None


def _add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    if left.dtype == total.dtype:
        total.addmm_(left, right)
    else:
        total.add_(left @ right)


def _product_type(features_ND: Tensor) -> torch.dtype:
    device = features_ND.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else features_ND.dtype
