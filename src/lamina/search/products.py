"""Matrix products for decoding on a CPU: many of few rows each.

A product of a few rows is bound by reading the matrix: a loop of our own does so once, where BLAS lays the matrix out
anew first. For more rows BLAS is the faster.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from lamina.model.seq2seq import Seq2Seq
from lamina.search import kernels
from lamina.search.kernels import Floats
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


def product(weight: Tensor, bias: Tensor | None) -> Product:
    """x ↦ W·x + b for rows (R, D), into an array of its own."""
    turned = weight.t().contiguous()
    added = weight.new_zeros(len(weight)) if bias is None else bias.contiguous()
    arrays = weight.contiguous().numpy(), added.numpy()

    def multiply(x_RD: Floats) -> Floats:
        if len(x_RD) <= FEW:
            return kernels.few_rows_product(x_RD, *arrays)
        result_RN = torch.mm(torch.from_numpy(x_RD), turned)
        return (result_RN if bias is None else result_RN.add_(bias)).numpy()

    return multiply


def vocabulary_product(weight_VD: Tensor) -> Callable[[Tensor], Tensor]:
    """x ↦ E·x for (B, T, D)."""
    multiply = product(weight_VD, None)

    def of_tensor(x_BTD: Tensor) -> Tensor:
        logits_RV = multiply(x_BTD.reshape(-1, x_BTD.shape[2]).numpy())
        return torch.from_numpy(logits_RV).view(*x_BTD.shape[:2], len(weight_VD))

    return of_tensor


def log_sum_exp(logits_BTV: Tensor) -> Tensor:
    """log Σ e^logit, (B, T, 1)."""
    rows_RV = logits_BTV.view(-1, logits_BTV.shape[2]).numpy()
    return torch.from_numpy(kernels.log_sum_exp(rows_RV)).view(*logits_BTV.shape[:2], 1)
