"""Matrix products for decoding on a CPU: many of few rows each.

BLAS lays a matrix out anew at every call, which takes longer than a small product with a large matrix; oneDNN can do so
beforehand. For small matrices it is the calls that cost: a plain product and a sum are the fewest.
"""

from __future__ import annotations

import torch
from torch import Tensor

from lamina.model.seq2seq import Seq2Seq
from lamina.search.quick_step import Product, give_quick_steps

FEW = 16  # rows that gain by a packed matrix
LARGE = 2**18  # entries of a matrix that gains by packing


def prepare_for_decoding(model: Seq2Seq) -> Seq2Seq:
    """Give the model faster ways to its steps, where there are; its weights must not change from then on."""
    weight_VD = model.head.weight_VD.detach()
    if weight_VD.device.type == "cpu" and weight_VD.dtype == torch.float32 and torch.backends.mkldnn.is_available():
        give_quick_steps(model.decoder, product)
        model.head.product = packed_product(weight_VD, None)
    return model


def product(weight: Tensor, bias: Tensor) -> Product:
    """x ↦ W·x + b for rows (R, D), into a tensor of its own."""
    plain = plain_product(weight, bias)
    if weight.numel() < LARGE:
        return plain
    packed = packed_product(weight, bias)
    return lambda x_RD: packed(x_RD) if len(x_RD) <= FEW else plain(x_RD)


def plain_product(weight: Tensor, bias: Tensor) -> Product:
    """By BLAS."""
    turned = weight.t().contiguous()
    return lambda x_RD: torch.mm(x_RD, turned).add_(bias)


def packed_product(weight: Tensor, bias: Tensor | None) -> Product:
    """By oneDNN, with W packed."""
    packed = torch.ops.mkldnn._reorder_linear_weight(weight, FEW)
    return lambda x: torch.ops.mkldnn._linear_pointwise(x, packed, bias, "none", [], "")
