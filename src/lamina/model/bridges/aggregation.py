"""Layer aggregation: small networks merge the encoder layers step by step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

from lamina.errors import Problem
from lamina.model.settings import BridgeSettings
from lamina.model.states import EncoderStates, Memory

if TYPE_CHECKING:
    from lamina.model.config import ModelConfig


class AggregationSettings(BridgeSettings):
    """`type: aggregation`."""

    type: Literal["aggregation"] = "aggregation"
    mode: Literal["iterative", "hierarchical"] = "iterative"  # a chain over layers, or a tree over pairs

    def problems(self, model: ModelConfig) -> Iterator[Problem]:
        """There must be at least two layers to merge, and an even number for the hierarchical mode."""
        layers, encoder = model.encoder.layers, model.encoder.type
        if self.mode == "hierarchical" and layers % 2:
            yield Problem(
                "bridge.mode",
                f"`hierarchical` merges pairs of layers, but encoder `{encoder}` has {layers}, an odd number.",
            )
        if layers < 2:
            yield Problem(
                "bridge.type",
                f"bridge `aggregation` merges at least two layers, but encoder `{encoder}` has {layers}.",
            )

    def build(self, model: ModelConfig) -> AggregationBridge:
        return AggregationBridge(self.mode, model)


class Aggregate(nn.Module):
    """AGG(x1..xk) = LN(W2·σ(W1·[x1;…;xk]) + Σ xi) (Dou et al. 2018, Eq. 8)."""

    def __init__(self, inputs: int, d_model: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(inputs * d_model, d_model)
        self.out = nn.Linear(d_model, d_model)
        self.norm = nn.LayerNorm(d_model)

    def forward(self, *inputs: Tensor) -> Tensor:
        """Each input is (B, S, D)."""
        merged_BSD = self.out(self.hidden(torch.cat(inputs, dim=-1)).sigmoid())
        return self.norm(merged_BSD + torch.stack(inputs).sum(dim=0))


class AggregationBridge(nn.Module):
    """Every decoder layer reads the last Ĥ (Dou et al. 2018).

    iterative:     Ĥ_1 = X_1,            Ĥ_l = AGG(X_l, Ĥ_{l-1})
    hierarchical:  Ĥ_1 = AGG(X_1, X_2),  Ĥ_i = AGG(X_{2i-1}, X_{2i}, Ĥ_{i-1})
    """

    def __init__(self, mode: Literal["iterative", "hierarchical"], model: ModelConfig) -> None:
        super().__init__()
        self.decoder_layers = model.decoder.layers
        self.stride = 1 if mode == "iterative" else 2  # encoder layers per merge
        merges = model.encoder.layers // self.stride - 1
        first = [] if mode == "iterative" else [Aggregate(2, model.d_model)]
        self.merges = nn.ModuleList([*first, *(Aggregate(self.stride + 1, model.d_model) for _ in range(merges))])

    def forward(self, enc: EncoderStates) -> tuple[Memory, ...]:
        merged: tuple[Tensor, ...] = enc.layers[:1] if self.stride == 1 else ()
        start = len(merged)
        for index, merge in enumerate(self.merges):
            first = start + index * self.stride
            merged = (merge(*enc.layers[first : first + self.stride], *merged),)
        return (Memory(merged, enc.valid_BS),) * self.decoder_layers
