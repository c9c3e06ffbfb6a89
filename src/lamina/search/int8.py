"""Linear layers in 8 bits: weights quantised once per row, activations at every call.

The only place that knows torch's quantised kernels.
"""

from __future__ import annotations

import copy
import warnings
from typing import Any

import torch
from torch import Tensor, nn

from lamina.errors import UsageError
from lamina.model.layers.attention import PackedLinear
from lamina.model.seq2seq import Seq2Seq


def quantise(model: Seq2Seq) -> Seq2Seq:
    """A copy whose linear layers and softmax matrix are in 8 bits; for decoding on a CPU."""
    if next(model.parameters()).device.type != "cpu":
        raise UsageError("--int8 is for CPUs; on a GPU leave it out.")
    model = copy.deepcopy(model)
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, PackedLinear):
                setattr(module, name, Int8Packed(child))
            elif type(child) is nn.Linear:
                setattr(module, name, Int8Linear(child.weight, child.bias))
    model.head.product = Int8Linear(model.head.weight_VD, None)
    return model


class Int8Linear(nn.Module):
    """W·x + b with W in 8 bits, a scale for each row."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.packed = pack(weight.detach(), None if bias is None else bias.detach())

    def forward(self, x: Tensor) -> Tensor:
        """x is quantised by its own range; `reduce_range` keeps AVX2's 16-bit sums from overflowing."""
        return torch.ops.quantized.linear_dynamic(x, self.packed, True)


class Int8Packed(nn.Module):
    """`PackedLinear` in 8 bits, with the parts that attention asks for."""

    def __init__(self, linear: PackedLinear) -> None:
        super().__init__()
        d_model = linear.in_features
        self.parts = {
            (first, last): Int8Linear(
                linear.weight[first * d_model : last * d_model], linear.bias[first * d_model : last * d_model]
            )
            for first, last in ((0, 3), (0, 1), (1, 3), (1, 2), (2, 3))
        }

    def project(self, x_BTD: Tensor, first: int, last: int) -> Tensor:
        """Parts `first` up to `last`, side by side."""
        return self.parts[first, last](x_BTD)


def pack(weight: Tensor, bias: Tensor | None) -> Any:
    """FBGEMM's layout of a quantised matrix."""
    scales = weight.abs().amax(dim=1).clamp(min=1e-12) / 127
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns that these kernels will move; this module is all that uses them
        zeros = torch.zeros(len(weight), dtype=torch.int64)
        quantised = torch.quantize_per_channel(weight, scales.double(), zeros, 0, torch.qint8)
        return torch.ops.quantized.linear_prepack(quantised, bias)
