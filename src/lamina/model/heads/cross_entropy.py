"""Memory-efficient label-smoothed cross-entropy over a large vocabulary.

    LS_n = (1-ε)·nll_n + (ε/V)·Σ_v(-log p_nv)         total = Σ_n w_n·LS_n

The vocabulary logits exist for one chunk of tokens at a time. The gradient of a chunk's logits is available along
with its probabilities, so the gradients of the features and of the softmax matrix are computed in the forward pass:
three vocabulary products in total, as in the naive implementation, without recomputation.

The gradient of the logits is w_n·(p_nv − ε/V − (1-ε)·[v = target]). The target's term is subtracted before p is rounded
to 16 bits: for confident predictions the two nearly cancel. The constant ε/V is applied to the features and the matrix
through sums, so that the softmax is the only pass over the logits. Likewise Σ_v logit_nv = f_n·Σ_v E_v.

Padding is skipped on a CPU. On other devices it is computed with w_n = 0, since selecting real tokens would synchronise
host and device.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from lamina.model.layers.attention import product_type
from lamina.model.states import Targets

# logits per chunk: on a CPU 32 MB in fp32, plus the same for the probabilities; a GPU needs larger chunks
CHUNK_LOGITS = {"cpu": 2**23, "cuda": 2**26}
SMALLEST_PROB = 1e-30  # smaller ones are imprecise in fp32


def smoothed_cross_entropy(
    features_ND: Tensor, weight_VD: Tensor, target_N: Tensor, smoothing: float, importance_N: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Σ_n w_n·LS_n, and the unsmoothed −log p of every token (detached). Without `importance_N` every w_n is 1."""
    if importance_N is None:
        importance_N = features_ND.new_ones(len(target_N))
    return _ChunkedCrossEntropy.apply(  # type: ignore[no-untyped-call]
        features_ND, weight_VD, target_N, importance_N, smoothing, torch.is_grad_enabled()
    )


@dataclass(frozen=True)
class RealTokens:
    """Selects the real target tokens: padding is skipped, or computed with weight 0 (`dense`)."""

    real_BT: Tensor
    dense: bool  # compute padding as well, with weight 0
    importance_BT: Tensor | None = None  # weight of each token; None: 1

    @classmethod
    def of(cls, targets: Targets) -> RealTokens:
        """Skip padding if that does not synchronise host and device."""
        dense = targets.ids_BT.device.type != "cpu" or torch.compiler.is_compiling()
        return cls(targets.ids_BT != targets.pad_id, dense, targets.importance_BT)

    @property
    def count(self) -> int | Tensor:
        """Their number; if padding is computed along, a tensor on the device."""
        return self.real_BT.sum() if self.dense else int(self.real_BT.sum())

    @property
    def importance_N(self) -> Tensor | None:
        """The weights w_n of the tokens that `take` selects; None: all 1."""
        if self.dense:
            real_BT = self.real_BT.float()
            return (real_BT if self.importance_BT is None else real_BT * self.importance_BT).flatten()
        return None if self.importance_BT is None else self.take(self.importance_BT)

    def take(self, x_BT: Tensor) -> Tensor:
        """Select tokens: (B, T, …) → (N, …)."""
        return x_BT.flatten(0, 1) if self.dense else x_BT[self.real_BT]

    def spread(self, values_N: Tensor) -> Tensor:
        """Undo `take`: (N,) → (B, T), 0 at padding."""
        if self.dense:
            return values_N.view(self.real_BT.shape) * self.real_BT
        return values_N.new_zeros(self.real_BT.shape).masked_scatter(self.real_BT, values_N)


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
        computed_type = product_type(features_ND)
        # fp16 gradients could underflow here: the loss scale is applied to the total later
        gradient_type = precise if computed_type == torch.float16 else computed_type
        with torch.autocast(features_ND.device.type, enabled=False):
            features_ND, matrix_VD = features_ND.to(computed_type), weight_VD.to(computed_type)
            mean_D = matrix_VD.mean(dim=0, dtype=precise)
            nll_N, smoothed_N = features_ND.new_empty(2, tokens, dtype=precise).unbind()
            if differentiable:
                gradient_VD = weight_VD.to(gradient_type)
                features_grad_ND = torch.empty_like(features_ND, dtype=gradient_type)
                weight_grad_VD = torch.zeros_like(weight_VD, dtype=precise)
            size = chunk_size(features_ND, vocabulary)
            logits_CV = features_ND.new_empty(size, vocabulary)  # reused by all chunks
            buffer_CV = torch.empty_like(logits_CV, dtype=precise)
            for start in range(0, tokens, size):
                chunk = slice(start, start + size)
                features_CD, target_C1 = features_ND[chunk], target_N[chunk, None]
                rows = len(features_CD)
                torch.mm(features_CD, matrix_VD.T, out=logits_CV[:rows])
                probs_CV, nll_N[chunk] = _softmax(logits_CV[:rows], buffer_CV[:rows], target_C1)
                normaliser_C = logits_CV[:rows].gather(1, target_C1)[:, 0] + nll_N[chunk]
                mean_log_prob_C = features_CD.to(precise) @ mean_D - normaliser_C
                smoothed_N[chunk] = (1 - smoothing) * nll_N[chunk] - smoothing * mean_log_prob_C
                if differentiable:
                    probs_CV.scatter_add_(1, target_C1, probs_CV.new_full(target_C1.shape, smoothing - 1))
                    probs_CV = probs_CV.to(gradient_type)
                    torch.mm(probs_CV, gradient_VD, out=features_grad_ND[chunk])
                    weighted_CD = features_CD.to(gradient_type) * importance_N[chunk, None]
                    add_product(weight_grad_VD, probs_CV.T, weighted_CD.to(gradient_type))
            if differentiable:
                features_grad_ND -= smoothing * mean_D
                features_grad_ND *= importance_N[:, None]
                weighted_D = importance_N.to(precise) @ features_ND.to(precise)
                weight_grad_VD -= weighted_D * (smoothing / vocabulary)
        if differentiable:
            ctx.save_for_backward(features_grad_ND, weight_grad_VD, smoothed_N)
        ctx.mark_non_differentiable(nll_N)
        return (smoothed_N * importance_N).sum(), nll_N

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        features_grad_ND, weight_grad_VD, smoothed_N = ctx.saved_tensors
        return features_grad_ND * grad, weight_grad_VD * grad, None, smoothed_N * grad, None, None


def _softmax(logits_CV: Tensor, out_CV: Tensor, target_C1: Tensor) -> tuple[Tensor, Tensor]:
    """All p in one pass over the logits, and −log p of the targets, recomputed from the logits if p is tiny.

    That check would synchronise host and device on a GPU, where log p is computed first: the extra pass costs little.
    """
    if logits_CV.device.type != "cpu" or torch.compiler.is_compiling():
        log_probs_CV = torch.log_softmax(logits_CV, dim=-1, dtype=out_CV.dtype, out=out_CV)
        nll_C = -log_probs_CV.gather(1, target_C1)[:, 0]
        return log_probs_CV.exp_(), nll_C
    probs_CV = torch.softmax(logits_CV, dim=-1, dtype=out_CV.dtype, out=out_CV)
    target_prob_C = probs_CV.gather(1, target_C1)[:, 0]
    nll_C = -target_prob_C.log()
    (tiny,) = torch.nonzero(target_prob_C < SMALLEST_PROB, as_tuple=True)
    if len(tiny):
        rows_XV = logits_CV[tiny].to(probs_CV.dtype)
        nll_C[tiny] = rows_XV.logsumexp(dim=-1) - rows_XV.gather(1, target_C1[tiny])[:, 0]
    return probs_CV, nll_C


def chunk_size(features_ND: Tensor, vocabulary: int) -> int:
    """Number of tokens per chunk."""
    logits = CHUNK_LOGITS.get(features_ND.device.type, CHUNK_LOGITS["cuda"])
    return max(1, min(len(features_ND), logits // vocabulary))


def add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    """total += left·right, for any dtypes."""
    if left.dtype == total.dtype:
        total.addmm_(left, right)
    else:
        total.add_(left @ right)
