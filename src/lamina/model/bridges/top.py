"""The standard bridge: every decoder layer reads the encoder's final states."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from torch import nn

from lamina.model.settings import BridgeSettings
from lamina.model.states import EncoderStates, Memory

if TYPE_CHECKING:
    from lamina.model.config import ModelConfig


class TopSettings(BridgeSettings):
    """`type: top`."""

    type: Literal["top"] = "top"

    @property
    def reads_top(self) -> bool:
        return True

    def build(self, model: ModelConfig) -> TopBridge:
        return TopBridge(model.decoder.layers)


class TopBridge(nn.Module):
    """Every decoder layer reads the encoder's final states (Vaswani et al. 2017)."""

    def __init__(self, decoder_layers: int) -> None:
        super().__init__()
        self.decoder_layers = decoder_layers

    def forward(self, enc: EncoderStates) -> tuple[Memory, ...]:
        return (Memory((enc.top_BSD,), enc.valid_BS),) * self.decoder_layers
