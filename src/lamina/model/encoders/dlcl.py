"""The encoder of DLCL: a stack whose layers read combinations of all layers below."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from lamina.base.settings import Depth
from lamina.model.encoders.stack import StackEncoder
from lamina.model.layers.dlcl import DlclWiring
from lamina.model.settings import EncoderSettings

if TYPE_CHECKING:
    from lamina.model.config import ModelConfig


class DlclSettings(EncoderSettings):
    """`type: dlcl`. The published system wires its decoder the same way: `decoder.wiring: dlcl`."""

    type: Literal["dlcl"] = "dlcl"
    layers: Depth

    def build(self, model: ModelConfig) -> StackEncoder:
        combinations = self.layers + 1 if model.bridge.reads_top else self.layers
        return StackEncoder(model, DlclWiring(combinations, model.d_model, model.norm))
