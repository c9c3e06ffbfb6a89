"""Casting the weights of many layers to 16 bits in one fused operation.

Autocast converts each weight separately, forward and backward: in a deep, narrow model these small kernels are a third
of all, and a GPU spends more time launching them than computing. Values and gradients are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, islice
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from lamina.model.decoder import DecoderLayer
from lamina.model.encoders.stack import EncoderLayer
from lamina.model.layers.attention import PackedLinear

GROUP = 12  # layers cast together; not all, so that gradient exchange between ranks overlaps with the backward pass


def cast_weights_together(model: nn.Module) -> None:
    """Fuse the casts of all encoder and decoder layers whenever autocast and gradients are enabled."""
    layers = [module for module in model.modules() if isinstance(module, EncoderLayer | DecoderLayer)]
    groups = [_Group(layers[first : first + GROUP]) for first in range(0, len(layers), GROUP)]

    def replace(model: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        device = inputs[0].device.type
        if torch.is_autocast_enabled(device) and torch.is_grad_enabled():
            for group in groups:
                group.replace(torch.get_autocast_dtype(device))

    def restore(*_: Any) -> None:
        for group in groups:
            group.restore()

    model.register_forward_pre_hook(replace)
    model.register_forward_hook(restore, always_call=True)


class _Group:
    """Layers whose weights and biases are replaced by cast copies during the forward pass."""

    def __init__(self, layers: Sequence[nn.Module]) -> None:
        self.layers = layers
        self.masters: list[tuple[nn.Linear, dict[str, Any]]] = []

    def replace(self, dtype: torch.dtype) -> None:
        """Replace all weights with cast copies; packed projections are split into the pieces that matmuls read."""
        # gradient checkpointing recomputes a layer after its weights are restored
        layers = [layer for layer in self.layers if not getattr(layer, "recompute", False)]
        linears = {part: None for layer in layers for part in layer.modules() if isinstance(part, nn.Linear)}
        self.masters = [(linear, dict(linear._parameters)) for linear in linears if linear.weight.requires_grad]
        weights, sizes, packed_biases = [], [], []
        for linear, own in self.masters:
            pieces = linear.pieces if isinstance(linear, PackedLinear) else (1,)
            for weight in filter(torch.is_tensor, own.values()):
                weights.append(weight)
                sizes.append([len(weight) // sum(pieces) * piece for piece in pieces])
            if isinstance(linear, PackedLinear):
                packed_biases.append(len(weights) - 1)
        if not weights:
            return
        cast = iter(_CastTogether.apply(dtype, sizes, packed_biases, *weights))  # type: ignore[no-untyped-call]
        for linear, own in self.masters:
            if isinstance(linear, PackedLinear):
                starts = accumulate((0, *linear.pieces[:-1]))
                matrices = list(islice(cast, len(linear.pieces)))
                linear.replaced = list(zip(starts, matrices, cast, strict=False))
            else:
                linear._parameters.update({name: next(cast) for name, weight in own.items() if weight is not None})

    def restore(self) -> None:
        """Restore the original weights."""
        for linear, own in self.masters:
            linear._parameters.update(own)
            if isinstance(linear, PackedLinear):
                linear.replaced = []
        self.masters = []


class _CastTogether(torch.autograd.Function):
    """Casts tensors and splits each by rows; key biases, the middle third of packed biases, get zero gradients.

    See `lamina.model.layers.attention` for the reason.
    """

    @staticmethod
    def forward(
        ctx: Any, dtype: torch.dtype, sizes: list[list[int]], packed_biases: list[int], *weights: Tensor
    ) -> tuple[Tensor, ...]:
        ctx.sizes, ctx.packed_biases = sizes, packed_biases
        ctx.templates = [torch.empty_like(weight, device="meta") for weight in weights]
        cast = [torch.empty_like(weight, dtype=dtype) for weight in weights]
        torch._foreach_copy_(cast, weights)
        return tuple(piece for weight, rows in zip(cast, sizes, strict=True) for piece in weight.split(rows))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        device = grads[0].device
        full_grads = [torch.empty_like(weight, device=device) for weight in ctx.templates]
        pieces = [piece for grad, rows in zip(full_grads, ctx.sizes, strict=True) for piece in grad.split(rows)]
        torch._foreach_copy_(pieces, grads)
        torch._foreach_zero_([full_grads[number].chunk(3)[1] for number in ctx.packed_biases])
        return None, None, None, *full_grads
