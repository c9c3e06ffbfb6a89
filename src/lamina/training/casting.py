"""The weights of a layer in 16 bits, all in one operation.

Autocast converts each weight by itself, forward and backward: in a deep, narrow model these small operations are a
third of all, and a GPU spends more time starting them than on the work. Values and gradients are the same.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from lamina.model.decoder import DecoderLayer
from lamina.model.encoders.stack import EncoderLayer

Place = tuple[nn.Module, str]  # a module and the name of one of its parameters


def cast_layers_at_once(model: nn.Module) -> None:
    """Do this in every encoder and decoder layer, while autocast is on and gradients are taken."""
    for module in model.modules():
        if isinstance(module, EncoderLayer | DecoderLayer):
            _LayerCast(module)


class _LayerCast:
    """Puts the weights of a layer's matrix products in 16 bits in their places while the layer computes."""

    def __init__(self, layer: nn.Module) -> None:
        linears = [module for module in layer.modules() if isinstance(module, nn.Linear)]
        self.places: list[Place] = [
            (linear, name) for linear in linears for name in ("weight", "bias") if linear._parameters[name] is not None
        ]
        self.masters: list[Tensor] = []
        layer.register_forward_pre_hook(self.swap_in)
        layer.register_forward_hook(self.swap_out, always_call=True)

    def swap_in(self, layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        device = inputs[0].device.type
        recomputing = getattr(layer, "recompute", False)  # the second time, backward, no hook would run
        if recomputing or not torch.is_autocast_enabled(device) or not torch.is_grad_enabled():
            return
        self.masters = [getattr(module, name) for module, name in self.places]
        cast = _CastTogether.apply(torch.get_autocast_dtype(device), *self.masters)  # type: ignore[no-untyped-call]
        for (module, name), weight in zip(self.places, cast, strict=True):
            module._parameters[name] = weight

    def swap_out(self, *_: Any) -> None:
        for (module, name), master in zip(self.places, self.masters, strict=False):
            module._parameters[name] = master  # type: ignore[assignment]
        self.masters = []


class _CastTogether(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, dtype: torch.dtype, *weights: Tensor) -> tuple[Tensor, ...]:
        ctx.dtype = weights[0].dtype
        return _cast(weights, dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return None, *_cast(grads, ctx.dtype)


def _cast(tensors: tuple[Tensor, ...], dtype: torch.dtype) -> tuple[Tensor, ...]:
    cast = [torch.empty_like(tensor, dtype=dtype) for tensor in tensors]
    torch._foreach_copy_(cast, tensors)
    return tuple(cast)
