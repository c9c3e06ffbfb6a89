"""Layer-wise attention: decoder layer j reads encoder layer j."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from torch import nn

from lamina.errors import Problem
from lamina.model.layers.residuals import norm_if_pre
from lamina.model.settings import BridgeSettings
from lamina.model.states import EncoderStates, Memory

if TYPE_CHECKING:
    from lamina.model.config import ModelConfig


class LayerwiseSettings(BridgeSettings):
    """`type: layerwise`. In pre-norm models, each layer has its own norm, or only the last one."""

    type: Literal["layerwise"] = "layerwise"
    norms: Literal["each", "last"] = "each"  # in pre-norm models; `last` is for imported models

    @property
    def reads_top(self) -> bool:
        """In imports, the last layer is read after the encoder's final norm."""
        return self.norms == "last"

    def problems(self, model: ModelConfig) -> Iterator[Problem]:
        """Encoder and decoder must be equally deep."""
        if model.encoder.layers != model.decoder.layers:
            yield Problem(
                "bridge.type",
                f"bridge `layerwise` needs as many encoder as decoder layers, but encoder `{model.encoder.type}` "
                f"has {model.encoder.layers} and the decoder {model.decoder.layers}. For a deeper encoder use "
                "bridge `blocks`.",
            )

    def build(self, model: ModelConfig) -> LayerwiseBridge:
        return LayerwiseBridge(self, model)


class LayerwiseBridge(nn.Module):
    """Decoder layer j reads encoder layer j (He et al. 2018; Liu et al. 2021)."""

    def __init__(self, settings: LayerwiseSettings, model: ModelConfig) -> None:
        super().__init__()
        self.last_is_top = settings.norms == "last"
        self.norms = nn.ModuleList(
            nn.Identity() if self.last_is_top else norm_if_pre(model.d_model, model.norm)
            for _ in range(model.decoder.layers)
        )

    def forward(self, enc: EncoderStates) -> tuple[Memory, ...]:
        layers = (*enc.layers[:-1], enc.top_BSD) if self.last_is_top else enc.layers
        return tuple(Memory((norm(x_BSD),), enc.valid_BS) for norm, x_BSD in zip(self.norms, layers, strict=True))
