"""Matrix products for decoding on a CPU: many of few rows each.

A product of a few rows is bound by reading the matrix: a loop of our own does so once, where BLAS lays the matrix out
anew first. For more rows BLAS is the faster, and for a large matrix oneDNN, which can lay it out beforehand.
"""

from __future__ import annotations

import torch
from torch import Tensor

from lamina.model.seq2seq import Seq2Seq
from lamina.search import kernels
from lamina.search.quick_step import Product, give_quick_steps

FEW = 12  # rows


def prepare_for_decoding(model: Seq2Seq) -> Seq2Seq:
    """Give the model faster ways to its steps, where there are; its weights must not change from then on."""
    weight_VD = model.head.weight_VD.detach()
    if weight_VD.device.type == "cpu" and weight_VD.dtype == torch.float32:
        give_quick_steps(model.decoder, product)
        model.head.product = vocabulary_product(weight_VD)
        model.head.normaliser = log_sum_exp
    return model


def product(weight: Tensor, bias: Tensor) -> Product:
    """x ↦ W·x + b for rows (R, D), into a tensor of its own."""
    turned = weight.t().contiguous()
    few = few_rows_product(weight, bias)
    return lambda x_RD: few(x_RD) if len(x_RD) <= FEW else torch.mm(x_RD, turned).add_(bias)


def vocabulary_product(weight_VD: Tensor) -> Product:
    """x ↦ E·x for (B, T, D)."""
    few = few_rows_product(weight_VD, weight_VD.new_zeros(len(weight_VD)))
    many = packed_product(weight_VD) if torch.backends.mkldnn.is_available() else lambda x: x @ weight_VD.t()

    def multiply(x_BTD: Tensor) -> Tensor:
        batch, length, width = x_BTD.shape
        if batch * length > FEW:
            return many(x_BTD)
        return few(x_BTD.reshape(-1, width)).view(batch, length, -1)

    return multiply


def few_rows_product(weight: Tensor, bias: Tensor) -> Product:
    """By our own loop."""
    arrays = weight.contiguous().numpy(), bias.contiguous().numpy()
    return lambda x_RD: torch.from_numpy(kernels.few_rows_product(x_RD.detach().numpy(), *arrays))


def packed_product(weight: Tensor) -> Product:
    """By oneDNN, with W packed."""
    packed = torch.ops.mkldnn._reorder_linear_weight(weight)
    return lambda x: torch.ops.mkldnn._linear_pointwise(x, packed, None, "none", [], "")


def log_sum_exp(logits_BTV: Tensor) -> Tensor:
    """log Σ e^logit, (B, T, 1)."""
    rows_RV = logits_BTV.detach().view(-1, logits_BTV.shape[2]).numpy()
    return torch.from_numpy(kernels.log_sum_exp(rows_RV)).view(*logits_BTV.shape[:2], 1)
