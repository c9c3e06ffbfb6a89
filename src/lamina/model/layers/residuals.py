"""Residual connections: around a sublayer, and from layer to layer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from torch import Tensor, nn

from lamina.model.layers.attention import product_type
from lamina.model.layers.dropout import Dropout

Norm = Literal["pre", "post"]


class Residual(nn.Module):
    """A residual connection with its norm.

        pre:   x ← x + drop(F(LN(x)))          post:   x ← LN(x + drop(F(x)))

    It is applied in two steps, since some sublayers read more than x:  x = r.add_residual(x, F(r.pre_norm(x), …))
    """

    def __init__(self, d_model: int, norm: Norm, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(d_model)
        self.dropout = Dropout(dropout)
        self.pre = norm == "pre"

    def pre_norm(self, x_BTD: Tensor) -> Tensor:
        """The sublayer's input."""
        return as_product(self.norm(x_BTD)) if self.pre else x_BTD

    def add_residual(self, x_BTD: Tensor, result_BTD: Tensor) -> Tensor:
        """The next sublayer's input."""
        total_BTD = x_BTD + (self.dropout(result_BTD) if self.training else result_BTD)
        return total_BTD if self.pre else self.norm(total_BTD)


def as_product(x_BTD: Tensor) -> Tensor:
    """Cast x to the dtype of matrix products once, for all products that read it."""
    return x_BTD.to(product_type(x_BTD))


class Wiring(nn.Module, ABC):
    """Determines what a layer reads from the layers below it."""

    @abstractmethod
    def keep(self, index: int, output_BTD: Tensor) -> Tensor:
        """What the layers above read of output `index`; 0 is the stack's input."""

    @abstractmethod
    def combine(self, kept: Sequence[Tensor]) -> Tensor:
        """The input of the next layer, or the stack's result after the last one."""


class ResidualWiring(Wiring):
    """The standard stack: a layer reads the output of the one below."""

    def keep(self, index: int, output_BTD: Tensor) -> Tensor:
        return output_BTD

    def combine(self, kept: Sequence[Tensor]) -> Tensor:
        return kept[-1]


def run_stack(
    wiring: Wiring, input_BTD: Tensor, layers: Iterable[Callable[[Tensor], Tensor]]
) -> tuple[tuple[Tensor, ...], Tensor]:
    """Run a stack of layers; return every layer's raw output and the result of the stack."""
    outputs: list[Tensor] = []
    kept = [wiring.keep(0, input_BTD)]
    for layer in layers:
        outputs.append(layer(wiring.combine(kept)))
        kept.append(wiring.keep(len(outputs), outputs[-1]))
    return tuple(outputs), wiring.combine(kept)


def norm_if_pre(d_model: int, norm: Norm, *, affine: bool = True) -> nn.Module:
    """A norm for the output of a pre-norm stack; that of a post-norm stack is already normalised."""
    return nn.LayerNorm(d_model, elementwise_affine=affine) if norm == "pre" else nn.Identity()
