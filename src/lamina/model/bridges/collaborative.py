"""MSC's bridge: decoder layer n reads block n and context n as two streams, which a gate fuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from torch import nn

from lamina.model.blocks import block_ends
from lamina.model.layers.fusion import Fusion, build_fusion
from lamina.model.layers.residuals import norm_if_pre
from lamina.model.settings import BridgeSettings
from lamina.model.states import EncoderStates, Memory

if TYPE_CHECKING:
    from lamina.model.config import ModelConfig


class CollaborativeSettings(BridgeSettings):
    """`type: collaborative`. `fusion` sets how the decoder combines the two streams."""

    type: Literal["collaborative"] = "collaborative"
    fusion: Fusion = "gate"  # a gate per dimension, or addition

    streams: ClassVar[int] = 2
    reads_contexts: ClassVar[bool] = True

    def build_fusion(self, d_model: int) -> nn.Module:
        return build_fusion(self.fusion, d_model)

    def build(self, model: ModelConfig) -> CollaborativeBridge:
        sizes = model.encoder.block_sizes(model)
        assert sizes is not None
        return CollaborativeBridge(sizes, model)


class CollaborativeBridge(nn.Module):
    """Contextual collaboration (Wei et al. 2020, Eq. 11): decoder layer n reads B^n and C^n."""

    def __init__(self, sizes: tuple[int, ...], model: ModelConfig) -> None:
        super().__init__()
        self.ends = block_ends(sizes)
        self.block_norms = nn.ModuleList(norm_if_pre(model.d_model, model.norm) for _ in sizes)
        self.context_norms = nn.ModuleList(norm_if_pre(model.d_model, model.norm) for _ in sizes)

    def forward(self, enc: EncoderStates) -> tuple[Memory, ...]:
        return tuple(
            Memory((block_norm(enc.layers[end]), context_norm(context_BSD)), enc.valid_BS)
            for end, context_BSD, block_norm, context_norm in zip(
                self.ends, enc.contexts, self.block_norms, self.context_norms, strict=True
            )
        )
