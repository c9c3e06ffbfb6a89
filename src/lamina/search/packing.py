"""Weights laid out once for many small products, as decoding on a CPU needs them.

A step of a few rows multiplies them with the whole softmax matrix. BLAS lays that matrix out anew at every call, which
takes longer than the product; oneDNN can do so beforehand.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from lamina.model.seq2seq import Seq2Seq

ROWS = 64  # of the products that the layout is made for


def pack_vocabulary(model: Seq2Seq) -> Seq2Seq:
    """Give the model's head a packed softmax matrix, where torch has one; the model is for decoding from then on."""
    weight_VD = model.head.weight_VD
    if weight_VD.device.type == "cpu" and weight_VD.dtype == torch.float32 and torch.backends.mkldnn.is_available():
        model.head.product = packed_product(weight_VD.detach())
    return model


def packed_product(weight_VD: Tensor) -> Callable[[Tensor], Tensor]:
    """x ↦ E·x with E packed."""
    packed = torch.ops.mkldnn._reorder_linear_weight(weight_VD, ROWS)

    def product(x: Tensor) -> Tensor:
        return torch.ops.mkldnn._linear_pointwise(x, packed, None, "none", [], "")

    return product
