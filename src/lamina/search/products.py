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
from lamina.search.quick_encoder import give_quick_layers
from lamina.search.quick_parts import Product
from lamina.search.quick_step import give_quick_steps

FEW = 20  # rows


def prepare_for_decoding(model: Seq2Seq) -> Seq2Seq:
    """Give the model faster ways to its steps, where there are; its weights must not change from then on."""
    weight_VD = model.head.weight_VD.detach()
    if weight_VD.device.type == "cpu" and weight_VD.dtype == torch.float32:
        give_quick_layers(model.encoder, shared_product)
        give_quick_steps(model.decoder, product)
        model.head.product = of_tensors(vocabulary_product(weight_VD))
        model.head.normaliser = log_sum_exp
    return model


def product(weight_ND: Tensor) -> Product:
    """x ↦ W·x for rows (R, D)."""
    turned_DN = weight_ND.t().contiguous()
    return with_few_rows(weight_ND, lambda x_RD: torch.mm(torch.from_numpy(x_RD), turned_DN).numpy())


def shared_product(weight_ND: Tensor) -> Product:
    """The same without a copy of the matrix: for encoders, which may be deep, and run once."""
    return with_few_rows(weight_ND, lambda x_RD: torch.mm(torch.from_numpy(x_RD), weight_ND.t()).numpy())


def vocabulary_product(weight_VD: Tensor) -> Product:
    """The same for a large matrix, which oneDNN writes out faster than BLAS, where there is oneDNN."""
    if not torch.backends.mkldnn.is_available():
        return product(weight_VD)
    packed = torch.ops.mkldnn._reorder_linear_weight(weight_VD)
    multiply = torch.ops.mkldnn._linear_pointwise
    return with_few_rows(weight_VD, lambda x_RD: multiply(torch.from_numpy(x_RD), packed, None, "none", [], "").numpy())


def with_few_rows(weight_ND: Tensor, multiply: Product) -> Product:
    """A product that leaves few rows to our loop."""
    array_ND = weight_ND.contiguous().numpy()
    return lambda x_RD: kernels.few_rows_product(x_RD, array_ND) if len(x_RD) <= FEW else multiply(x_RD)


def of_tensors(multiply: Product) -> Callable[[Tensor], Tensor]:
    """The same product for (B, T, D)."""

    def of_tensor(x_BTD: Tensor) -> Tensor:
        result_RN = multiply(x_BTD.reshape(-1, x_BTD.shape[2]).contiguous().numpy())
        return torch.from_numpy(result_RN).view(*x_BTD.shape[:2], result_RN.shape[1])

    return of_tensor


def log_sum_exp(logits_BTV: Tensor) -> Tensor:
    """log Σ e^logit, (B, T, 1)."""
    rows_RV = logits_BTV.view(-1, logits_BTV.shape[2]).numpy()
    return torch.from_numpy(kernels.log_sum_exp(rows_RV)).view(*logits_BTV.shape[:2], 1)
