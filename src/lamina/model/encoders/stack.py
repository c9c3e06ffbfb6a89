"""The plain Transformer encoder."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Literal

from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from lamina.base.settings import Depth
from lamina.model.layers.attention import Attention
from lamina.model.layers.feedforward import build_feed_forward
from lamina.model.layers.residuals import Residual, ResidualWiring, Wiring, norm_if_pre, run_stack
from lamina.model.settings import EncoderSettings
from lamina.model.states import EncoderStates

if TYPE_CHECKING:
    from lamina.model.config import ModelConfig


class StackSettings(EncoderSettings):
    """`type: stack`."""

    type: Literal["stack"] = "stack"
    layers: Depth
    frozen_final_norm: bool = False  # imports only: keep the published final norm, untrained

    def build(self, model: ModelConfig) -> StackEncoder:
        encoder = StackEncoder(model, ResidualWiring())
        if self.frozen_final_norm:
            encoder.final_norm = norm_if_pre(model.d_model, model.norm).requires_grad_(False)
        return encoder


class EncoderLayer(nn.Module):
    """Self-attention and feed-forward, each with its residual."""

    def __init__(self, model: ModelConfig) -> None:
        super().__init__()
        self.attention = Attention(model.d_model, model.heads, model.attention_dropout)
        self.attention_residual = Residual(model.d_model, model.norm, model.dropout)
        self.feed_forward = build_feed_forward(model)
        self.feed_forward_residual = Residual(model.d_model, model.norm, model.dropout)
        self.recompute = False  # gradient checkpointing

    def attend(self, x_BSD: Tensor, mask_B11S: Tensor, context: tuple[Tensor, ...]) -> Tensor:
        """The attention sublayer without its residual; subclasses also attend to `context`."""
        return self.attention(x_BSD, mask_B11S)

    def forward(self, x_BSD: Tensor, mask_B11S: Tensor, *context: Tensor) -> Tensor:
        """(B, S, D) → (B, S, D)."""
        if self.recompute and self.training:
            return checkpoint(self.compute, x_BSD, mask_B11S, *context, use_reentrant=False)
        return self.compute(x_BSD, mask_B11S, *context)

    def compute(self, x_BSD: Tensor, mask_B11S: Tensor, *context: Tensor) -> Tensor:
        """The forward pass without gradient checkpointing."""
        attended_BSD = self.attend(self.attention_residual.pre_norm(x_BSD), mask_B11S, context)
        x_BSD = self.attention_residual.add_residual(x_BSD, attended_BSD)
        transformed_BSD = self.feed_forward(self.feed_forward_residual.pre_norm(x_BSD))
        return self.feed_forward_residual.add_residual(x_BSD, transformed_BSD)


def recompute_layers(encoder: nn.Module) -> None:
    """Enable gradient checkpointing: keep only the input of every layer, and recompute it in the backward pass."""
    for module in encoder.modules():
        if isinstance(module, EncoderLayer):
            module.recompute = True


class StackEncoder(nn.Module):
    """A stack of layers, wired by residuals or DLCL, with a final norm if they are pre-norm.

    The final norm has no parameters if the bridge does not read the encoder's final states.
    """

    def __init__(self, model: ModelConfig, wiring: Wiring) -> None:
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer(model) for _ in range(model.encoder.layers))
        self.wiring = wiring
        self.final_norm = norm_if_pre(model.d_model, model.norm, affine=model.bridge.reads_top)

    def forward(self, states: EncoderStates) -> EncoderStates:
        """Add the layers' outputs and the final states."""
        layers = (partial(layer, mask_B11S=states.mask_B11S) for layer in self.layers)
        outputs, top_BSD = run_stack(self.wiring, states.embedded_BSD, layers)
        return replace(states, layers=outputs, top_BSD=self.final_norm(top_BSD))
