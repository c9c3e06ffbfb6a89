"""The encoder of depth growing: trained layers at the bottom, new layers on top.

x ──┬──► bottom layers ──► H1 ──(+)──► new layers ──► H2
    └───────── LN_e ──────────────┘
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Literal

from pydantic import PositiveInt

from lamina.errors import Problem
from lamina.model.encoders.stack import StackEncoder
from lamina.model.layers.growth import GrownWiring, count_new_layers
from lamina.model.layers.residuals import norm_if_pre, run_stack
from lamina.model.settings import EncoderSettings
from lamina.model.states import EncoderStates

if TYPE_CHECKING:
    from lamina.model.config import ModelConfig


class GrownSettings(EncoderSettings):
    """`type: grown`."""

    type: Literal["grown"] = "grown"
    layers: PositiveInt
    new_layers: PositiveInt | None = None  # number of new layers; None is a quarter of all

    def problems(self, model: ModelConfig) -> Iterator[Problem]:
        """There must be trained layers below the new ones."""
        if count_new_layers(self.layers, self.new_layers) >= self.layers:
            yield Problem(
                "encoder.new_layers",
                "encoder `grown` needs trained layers below the new ones, but every layer is new.",
            )

    def build(self, model: ModelConfig) -> GrownEncoder:
        """Build the whole stack; `lamina train --grow-from` loads the weights of its bottom."""
        return GrownEncoder(self, model)


class GrownEncoder(StackEncoder):
    """The encoder of depth growing (Wu et al. 2019): H2 = top(H1 + LN_e(x)).

    In pre-norm stacks H1 in this sum is the raw residual stream; the decoder reads it after the bottom's final norm.
    """

    def __init__(self, settings: GrownSettings, model: ModelConfig) -> None:
        trained_layers = settings.layers - count_new_layers(settings.layers, settings.new_layers)
        super().__init__(model, GrownWiring(trained_layers, model.d_model))
        self.bottom_norm = norm_if_pre(model.d_model, model.norm, affine=model.bridge.grows_decoder)

    def forward(self, states: EncoderStates) -> EncoderStates:
        """Add the layers' outputs, the final states and the states of the bottom."""
        assert isinstance(self.wiring, GrownWiring)
        layers = (partial(layer, mask_B11S=states.mask_B11S) for layer in self.layers)
        outputs, top_BSD = run_stack(self.wiring, states.embedded_BSD, layers)
        bottom_BSD = self.bottom_norm(outputs[self.wiring.bottom - 1])
        released_BSD = bottom_BSD + self.wiring.input_norm(states.embedded_BSD)
        return replace(states, layers=outputs, top_BSD=self.final_norm(top_BSD), bottoms=(bottom_BSD, released_BSD))
