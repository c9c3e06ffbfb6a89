"""Label-smoothed cross-entropy over a large vocabulary in little memory.

    LS_n = (1-ε)·nll_n + (ε/V)·Σ_v(-log p_nv)         total = Σ_n w_n·LS_n

The vocabulary logits exist for one chunk of tokens at a time. The gradient of a chunk's logits is available as
soon as its probabilities are, so the gradients of the features and of the softmax matrix are formed in the
forward pass: three vocabulary products in all, as many as the plain way, and nothing is recomputed.

The gradient of the logits is w_n·(p_nv − ε/V − (1-ε)·[v = target]). Only p is as large as the vocabulary; the other
two terms reach the features and the matrix through sums and single rows, so logits are passed over once, by the
softmax. Likewise Σ_v logit_nv = f_n·Σ_v E_v.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

CHUNK_LOGITS = 2**23  # alive at a time: 32 MB in fp32, and as much again for the probabilities
SMALLEST_PROB = 1e-30  # below, fp32 loses digits


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
        product_type = product_type_of(features_ND)
        # fp16 gradients here would miss the loss scale, which is applied to the total only afterwards
        gradient_type = precise if product_type == torch.float16 else product_type
        with torch.autocast(features_ND.device.type, enabled=False):
            features_ND, matrix_VD = features_ND.to(product_type), weight_VD.to(product_type)
            mean_D = matrix_VD.mean(dim=0, dtype=precise)
            nll_N, smoothed_N = features_ND.new_empty(2, tokens, dtype=precise).unbind()
            if differentiable:
                gradient_VD = weight_VD.to(gradient_type)
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
                probs_CV = torch.softmax(logits_CV[:rows], dim=-1, dtype=precise, out=buffer_CV[:rows])
                nll_N[chunk] = _nll(logits_CV[:rows], probs_CV, target_C1)
                normaliser_C = logits_CV[:rows].gather(1, target_C1)[:, 0] + nll_N[chunk]
                mean_log_prob_C = features_CD.to(precise) @ mean_D - normaliser_C
                smoothed_N[chunk] = (1 - smoothing) * nll_N[chunk] - smoothing * mean_log_prob_C
                if differentiable:
                    probs_CV = probs_CV.to(gradient_type)
                    torch.mm(probs_CV, gradient_VD, out=features_grad_ND[chunk])
                    weighted_CD = features_CD.to(gradient_type) * importance_N[chunk, None]
                    add_product(weight_grad_VD, probs_CV.T, weighted_CD.to(gradient_type))
        if differentiable:
            features_grad_ND -= smoothing * mean_D + (1 - smoothing) * gradient_VD[target_N]
            features_grad_ND *= importance_N[:, None]
            weighted_ND = features_ND.to(precise) * importance_N[:, None]
            weight_grad_VD -= weighted_ND.sum(dim=0) * (smoothing / vocabulary)
            weight_grad_VD.index_add_(0, target_N, weighted_ND, alpha=smoothing - 1)
            ctx.save_for_backward(features_grad_ND, weight_grad_VD, smoothed_N)
        ctx.mark_non_differentiable(nll_N)
        return (smoothed_N * importance_N).sum(), nll_N

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        features_grad_ND, weight_grad_VD, smoothed_N = ctx.saved_tensors
        return features_grad_ND * grad, weight_grad_VD * grad, None, smoothed_N * grad, None, None


def _nll(logits_CV: Tensor, probs_CV: Tensor, target_C1: Tensor) -> Tensor:
    """−log p of the targets, from p itself unless that is too small to be exact."""
    target_prob_C = probs_CV.gather(1, target_C1)[:, 0]
    nll_C = -target_prob_C.log()
    (tiny,) = torch.nonzero(target_prob_C < SMALLEST_PROB, as_tuple=True)
    if len(tiny):
        rows_XV = logits_CV[tiny].to(probs_CV.dtype)
        nll_C[tiny] = rows_XV.logsumexp(dim=-1) - rows_XV.gather(1, target_C1[tiny])[:, 0]
    return nll_C


def add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    """total += left·right, whatever their types."""
    if left.dtype == total.dtype:
        total.addmm_(left, right)
    else:
        total.add_(left @ right)


def product_type_of(features_ND: Tensor) -> torch.dtype:
    """What products are computed in: autocast's type, or that of the features."""
    device = features_ND.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else features_ND.dtype
