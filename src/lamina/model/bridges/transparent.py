"""Transparent attention: decoder layer j reads its own mix of all encoder layers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lamina.base.settings import Rate
from lamina.errors import UsageError
from lamina.model.layers.dropout import Dropout
from lamina.model.settings import BridgeSettings
from lamina.model.states import EncoderStates, Memory

if TYPE_CHECKING:
    from lamina.model.config import ModelConfig


class MixSettings(BridgeSettings):
    """Settings shared by the bridges that mix all encoder layers."""

    embedding: Literal["input", "surface"] | None  # layer 0: with positions, without, or omitted
    embedding_norm: bool  # normalise layer 0, in post-norm models
    weight_dropout: Rate = 0.0  # dropout on the weights after the softmax
    dropconnect: Rate = 0.0  # dropout on the weights before the softmax


class TransparentSettings(MixSettings):
    """`type: transparent`."""

    type: Literal["transparent"] = "transparent"
    embedding: Literal["input", "surface"] | None = "input"
    embedding_norm: bool = False

    def build(self, model: ModelConfig) -> TransparentBridge:
        return TransparentBridge(self, model)


class TransparentBridge(nn.Module):
    """Transparent attention (Bapna et al. 2018, Eq. 4): S_j = drop(LN(Σ_n α_{j,n}·X_n)), α_j = softmax(w_j).

    X_0 is the embedding, X_n encoder layer n; one norm is shared by all j. In a pre-norm stack X_n is the raw
    residual stream, which this norm rescales. `mask_layer` sets one layer's weight to zero: the probe of Liu et al.
    (2021), Figure 2.
    """

    mix = "jl,lbsd->jbsd"

    def __init__(self, settings: MixSettings, model: ModelConfig) -> None:
        super().__init__()
        self.embedding = settings.embedding
        self.weight_dropout = settings.weight_dropout
        self.dropconnect = settings.dropconnect
        columns = model.encoder.layers + (settings.embedding is not None)
        self.weight = nn.Parameter(torch.empty(self.weight_shape(model.decoder.layers, columns, model.d_model)))
        self.reset_parameters()
        normed = settings.embedding is not None and settings.embedding_norm and model.norm == "post"
        self.embedding_norm = nn.LayerNorm(model.d_model) if normed else nn.Identity()
        self.norm = nn.LayerNorm(model.d_model)
        self.dropout = Dropout(model.dropout)
        self.masked: int | None = None

    def weight_shape(self, decoder_layers: int, columns: int, d_model: int) -> tuple[int, ...]:
        """(J, L) or (J, L+1)."""
        return (decoder_layers, columns)

    def reset_parameters(self) -> None:
        """Initialise to nearly equal weights as in the code of Liu et al. (2021): U(±√(2/(J+L)))."""
        bound = (2 / (self.weight.shape[0] + self.weight.shape[1])) ** 0.5
        nn.init.uniform_(self.weight, -bound, bound)

    def weights(self) -> Tensor:
        """α: softmax over layers (dimension 1), with dropout and mask applied."""
        alpha = F.dropout(self.weight, self.dropconnect, self.training).softmax(dim=1)
        alpha = F.dropout(alpha, self.weight_dropout, self.training)
        if self.masked is not None:
            visible = torch.arange(alpha.shape[1], device=alpha.device) != self.masked
            alpha = alpha * visible.view(-1, *[1] * (alpha.dim() - 2))
        return alpha

    @contextmanager
    def mask_layer(self, layer: int) -> Iterator[None]:
        """A context in which encoder layer `layer` (0 is the embedding) has weight 0 in every mix."""
        column = layer if self.embedding is not None else layer - 1
        if not 0 <= column < self.weight.shape[1]:
            lowest = 0 if self.embedding is not None else 1
            highest = self.weight.shape[1] - 1 + lowest
            raise UsageError(f"The layer to mask must be from {lowest} to {highest}, but is {layer} instead.")
        self.masked = column
        try:
            yield
        finally:
            self.masked = None

    def forward(self, enc: EncoderStates) -> tuple[Memory, ...]:
        layers = enc.layers
        if self.embedding is not None:
            embedding_BSD = enc.embedded_BSD if self.embedding == "input" else enc.surface_BSD
            layers = (self.embedding_norm(embedding_BSD), *layers)
        mixed_JBSD = torch.einsum(self.mix, self.weights(), torch.stack(layers))
        normed_JBSD = self.dropout(self.norm(mixed_JBSD))
        return tuple(Memory((x_BSD,), enc.valid_BS) for x_BSD in normed_JBSD)
