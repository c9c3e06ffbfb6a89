"""The bridge of depth growing: trained decoder layers read the trained encoder, new ones the new encoder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import PositiveInt
from torch import nn

from lamina.errors import Problem
from lamina.model.layers.growth import count_new_layers
from lamina.model.settings import BridgeSettings
from lamina.model.states import EncoderStates, Memory

if TYPE_CHECKING:
    from lamina.model.config import ModelConfig


class GrownBridgeSettings(BridgeSettings):
    """`type: grown`."""

    type: Literal["grown"] = "grown"
    wiring: Literal["paper", "release"] = "paper"  # `release`: trained layers also read the normalised embedding
    new_layers: PositiveInt | None = None  # number of new decoder layers; None is a quarter of all

    grows_decoder: ClassVar[bool] = True

    @property
    def reads_top(self) -> bool:
        return True

    def trained_layers(self, decoder_layers: int) -> int:
        """Number of trained decoder layers, below the new ones."""
        return decoder_layers - count_new_layers(decoder_layers, self.new_layers)

    def problems(self, model: ModelConfig) -> Iterator[Problem]:
        """The encoder must be `grown` too, and there must be trained decoder layers."""
        if model.encoder.type != "grown":
            yield Problem(
                "bridge.type",
                f"bridge `grown` reads the output of trained lower layers, which encoder `{model.encoder.type}` "
                "does not have. Use encoder `grown`, or another bridge.",
            )
        if self.trained_layers(model.decoder.layers) < 1:
            yield Problem(
                "bridge.new_layers",
                "bridge `grown` needs trained decoder layers below the new ones, but every decoder layer is new.",
            )
        if model.decoder.wiring != "residual":
            yield Problem("decoder.wiring", "bridge `grown` sets the wiring of the decoder: use `residual`.")

    def build(self, model: ModelConfig) -> GrownBridge:
        return GrownBridge(self, model.decoder.layers)


class GrownBridge(nn.Module):
    """Trained decoder layers read H1 (H1 + LN_e(x) in the released wiring), new ones H2 (Wu et al. 2019)."""

    def __init__(self, settings: GrownBridgeSettings, decoder_layers: int) -> None:
        super().__init__()
        self.released = settings.wiring == "release"
        self.trained = settings.trained_layers(decoder_layers)
        self.decoder_layers = decoder_layers

    def forward(self, enc: EncoderStates) -> tuple[Memory, ...]:
        bottom, top = (Memory((x_BSD,), enc.valid_BS) for x_BSD in (enc.bottoms[self.released], enc.top_BSD))
        return (*(bottom,) * self.trained, *(top,) * (self.decoder_layers - self.trained))
