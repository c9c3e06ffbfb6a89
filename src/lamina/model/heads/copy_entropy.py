"""Label-smoothed cross-entropy of a softmax mixed with a copy distribution, without materialising the mixture.

    P(v) = g·softmax_v + (1-g)·Σ_{i: x_i = v} α_i                        g = σ(gate)

Only source tokens have copy mass. With q_v = g·softmax_v and m_v the copy mass of token v,

    Σ_v log P(v) = Σ_v log q_v + Σ_{v in source} [log(q_v + m_v) − log q_v]

so compared with plain cross-entropy all additional tensors are (tokens × source). As there, logits exist for one chunk
of tokens at a time, and their gradient is computed along with the chunk's loss: three vocabulary products in total.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from lamina.model.heads.cross_entropy import add_product, chunk_size
from lamina.model.layers.attention import product_type


class CopySource(NamedTuple):
    """The tokens that may be copied, a row for each target token."""

    tokens_NS: Tensor  # ids
    slots_NS: Tensor  # first position of the same token
    first_NS: Tensor  # whether this is that first position


class CopyInputs(NamedTuple):
    """The components of the mixture, a row for each target token."""

    features_ND: Tensor  # input of the softmax
    gate_N: Tensor  # logit of p_gen
    copied_NS: Tensor  # attention α
    source: CopySource


def add_copied(log_q: Tensor, mass: Tensor) -> Tensor:
    """log(q + m), exactly log q where m is 0."""
    copied = torch.logaddexp(log_q, mass.clamp_min(torch.finfo(mass.dtype).tiny).log())
    return torch.where(mass > 0, copied, log_q)


def gather_mass(weights: Tensor, slots: Tensor) -> Tensor:
    """Sum the attention to all positions of a token at the first of them: (…, S) → (…, S)."""
    return torch.zeros_like(weights).scatter_add(-1, slots, weights)


def copy_cross_entropy(
    inputs: CopyInputs, weight_VD: Tensor, target_N: Tensor, smoothing: float, importance_N: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Σ_n w_n·LS_n, and the unsmoothed −log P of every token (detached)."""
    if importance_N is None:
        importance_N = torch.ones_like(inputs.gate_N)
    return _CopyCrossEntropy.apply(  # type: ignore[no-untyped-call]
        *inputs, target_N, importance_N, weight_VD, smoothing, torch.is_grad_enabled()
    )


def _losses(
    leaves: list[Tensor], hit_CS: Tensor, source: CopySource, smoothing: float, vocabulary: int
) -> tuple[Tensor, Tensor]:
    """LS and −log P of a chunk of tokens.

    `leaves` are log Z, the logits of the target and of the source tokens, the mean logit, the gate and α.
    """
    normaliser_C, target_C, source_CS, mean_C, gate_C, copied_CS = leaves
    log_gate_C, copy_gate_C = F.logsigmoid(gate_C), torch.sigmoid(-gate_C)
    shift_C = log_gate_C - normaliser_C
    target_mass_C = copy_gate_C * (copied_CS * hit_CS).sum(dim=1)
    nll_C = -add_copied(target_C + shift_C, target_mass_C)
    if smoothing == 0:
        return nll_C, nll_C
    log_q_CS = source_CS + shift_C[:, None]
    mass_CS = copy_gate_C[:, None] * gather_mass(copied_CS, source.slots_NS)
    gained_C = ((add_copied(log_q_CS, mass_CS) - log_q_CS) * source.first_NS).sum(dim=1)
    return (1 - smoothing) * nll_C - smoothing * (mean_C + shift_C + gained_C / vocabulary), nll_C


def _chunk_loss(
    leaves: list[Tensor],
    target_C1: Tensor,
    source: CopySource,
    importance_C: Tensor,
    smoothing: float,
    vocabulary: int,
    differentiable: bool,
) -> tuple[Tensor, Tensor, list[Tensor]]:
    """The total of a chunk, −log P of its tokens, and the gradients of the total with respect to `leaves`."""
    with torch.set_grad_enabled(differentiable):
        leaves = [leaf.detach().requires_grad_(differentiable) for leaf in leaves]
        hit_CS = source.tokens_NS == target_C1
        smoothed_C, nll_C = _losses(leaves, hit_CS, source, smoothing, vocabulary)
        total = (smoothed_C * importance_C).sum()
    if not differentiable:
        return total, nll_C, []
    gradients = torch.autograd.grad(total, leaves, allow_unused=True)
    dense = [
        torch.zeros_like(leaf) if gradient is None else gradient
        for leaf, gradient in zip(leaves, gradients, strict=True)
    ]
    return total.detach(), nll_C.detach(), dense


class _CopyCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        features_ND: Tensor,
        gate_N: Tensor,
        copied_NS: Tensor,
        source: CopySource,
        target_N: Tensor,
        importance_N: Tensor,
        weight_VD: Tensor,
        smoothing: float,
        differentiable: bool,
    ) -> tuple[Tensor, Tensor]:
        tokens, vocabulary = len(target_N), len(weight_VD)
        precise = torch.promote_types(features_ND.dtype, torch.float32)
        total, nll_N = features_ND.new_zeros((), dtype=precise), features_ND.new_empty(tokens, dtype=precise)
        accumulated = None
        computed_type = product_type(features_ND)
        features_ND, matrix_VD = features_ND.to(computed_type), weight_VD.to(computed_type)
        with torch.autocast(features_ND.device.type, enabled=False):
            mean_D = matrix_VD.mean(dim=0, dtype=precise)
            if differentiable:
                accumulated = _Gradients(features_ND, weight_VD, copied_NS, mean_D, precise)
            size = chunk_size(features_ND, vocabulary)
            logits_CV = features_ND.new_empty(size, vocabulary)
            buffer_CV = torch.empty_like(logits_CV, dtype=precise)
            for start in range(0, tokens, size):
                chunk = slice(start, start + size)
                features_CD, target_C1 = features_ND[chunk], target_N[chunk, None]
                chunk_source, rows = CopySource(*(part[chunk] for part in source)), len(features_CD)
                logits_rV = torch.mm(features_CD, matrix_VD.T, out=logits_CV[:rows])
                probs_rV = torch.softmax(logits_rV, dim=-1, dtype=precise, out=buffer_CV[:rows])
                leaves = [
                    _normaliser(logits_rV, probs_rV),
                    logits_rV.gather(1, target_C1)[:, 0].to(precise),
                    logits_rV.gather(1, chunk_source.tokens_NS).to(precise),
                    features_CD.to(precise) @ mean_D,
                    gate_N[chunk].to(precise),
                    copied_NS[chunk].to(precise),
                ]
                chunk_total, nll_N[chunk], gradients = _chunk_loss(
                    leaves, target_C1, chunk_source, importance_N[chunk], smoothing, vocabulary, differentiable
                )
                total += chunk_total
                if accumulated is not None:
                    accumulated.add(chunk, probs_rV, target_C1, chunk_source.tokens_NS, gradients)
        if accumulated is not None:
            accumulated.weight_VD += accumulated.mean_D / vocabulary
            ctx.save_for_backward(
                accumulated.features_ND, accumulated.gate_N, accumulated.copied_NS, accumulated.weight_VD
            )
        ctx.mark_non_differentiable(nll_N)
        return total, nll_N

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        features_ND, gate_N, copied_NS, weight_VD = (saved * grad for saved in ctx.saved_tensors)
        return features_ND, gate_N, copied_NS, None, None, None, weight_VD, None, None


class _Gradients:
    """Gradients of the total, accumulated chunk by chunk."""

    def __init__(
        self, features_ND: Tensor, weight_VD: Tensor, copied_NS: Tensor, mean_D: Tensor, precise: torch.dtype
    ) -> None:
        dtype = precise if features_ND.dtype == torch.float16 else features_ND.dtype  # as in `cross_entropy`
        self.inputs_ND, self.matrix_VD, self.mean_logit_D = features_ND.to(dtype), weight_VD.to(dtype), mean_D
        self.features_ND = torch.empty_like(self.inputs_ND)
        self.weight_VD = torch.zeros_like(weight_VD, dtype=precise)
        self.gate_N = features_ND.new_empty(len(features_ND), dtype=precise)
        self.copied_NS = torch.empty_like(copied_NS, dtype=precise)
        self.mean_D = torch.zeros_like(mean_D)

    def add(
        self, chunk: slice, probs_CV: Tensor, target_C1: Tensor, tokens_CS: Tensor, gradients: list[Tensor]
    ) -> None:
        """Add a chunk, given the gradients of its `leaves`; overwrites `probs_CV`."""
        normaliser_C, target_C, source_CS, mean_C, self.gate_N[chunk], self.copied_NS[chunk] = gradients
        probs_CV.mul_(normaliser_C[:, None])
        probs_CV.scatter_add_(1, tokens_CS, source_CS)
        probs_CV.scatter_add_(1, target_C1, target_C[:, None])
        inputs_CD, logits_CV = self.inputs_ND[chunk], probs_CV.to(self.matrix_VD.dtype)
        torch.mm(logits_CV, self.matrix_VD, out=self.features_ND[chunk])
        self.features_ND[chunk] += torch.outer(mean_C, self.mean_logit_D).to(inputs_CD.dtype)
        self.mean_D += mean_C @ inputs_CD.to(mean_C.dtype)
        add_product(self.weight_VD, logits_CV.T, inputs_CD)


def _normaliser(logits_CV: Tensor, probs_CV: Tensor) -> Tensor:
    """log Σ e^logit, computed from the most probable token."""
    prob_C, token_C = probs_CV.max(dim=1)
    return logits_CV.gather(1, token_C[:, None])[:, 0].to(probs_CV.dtype) - prob_C.log()
