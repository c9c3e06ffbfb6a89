"""Fine-grained layer attention: a mix of encoder layers with separate weights in every dimension."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from lamina.base.settings import Rate
from lamina.model.bridges.transparent import MixSettings, TransparentBridge

if TYPE_CHECKING:
    from lamina.model.config import ModelConfig


class FineGrainedSettings(MixSettings):
    """`type: fine_grained`. Layer 0 is the embedding without positions, as published."""

    type: Literal["fine_grained"] = "fine_grained"
    embedding: Literal["input", "surface"] | None = "surface"
    embedding_norm: bool = True
    dropconnect: Rate = 0.3

    def build(self, model: ModelConfig) -> FineGrainedBridge:
        return FineGrainedBridge(self, model)


class FineGrainedBridge(TransparentBridge):
    """EncoderFusion with fine-grained layer attention (Liu et al. 2021, §2).

    Transparent attention with w ∈ R^{J×(L+1)×D}: the softmax over layers is taken in each dimension separately.
    """

    mix = "jld,lbsd->jbsd"

    def weight_shape(self, decoder_layers: int, columns: int, d_model: int) -> tuple[int, ...]:
        """(J, L+1, D)."""
        return (decoder_layers, columns, d_model)
