"""The position-wise feed-forward network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from torch import Tensor, nn
from torch.nn import functional as F

from lamina.model.layers.dropout import Dropout

if TYPE_CHECKING:
    from lamina.model.config import ModelConfig

Activation = Literal["relu", "swish", "gelu"]


class FeedForward(nn.Module):
    """W2·relu(W1·x + b1) + b2, with dropout after the activation."""

    def __init__(self, d_model: int, hidden: int, activation_dropout: float) -> None:
        super().__init__()
        self.up_proj = nn.Linear(d_model, hidden)
        self.down_proj = nn.Linear(hidden, d_model)
        self.dropout = Dropout(activation_dropout)

    def forward(self, x_BTD: Tensor) -> Tensor:
        """(B, T, D) → (B, T, D)."""
        return self.down_proj(self.dropout(self.up_proj(x_BTD).relu()))


class SmoothFeedForward(FeedForward):
    """A feed-forward network with swish or GELU, as in imported models."""

    def __init__(self, d_model: int, hidden: int, activation_dropout: float, activation: Activation) -> None:
        super().__init__(d_model, hidden, activation_dropout)
        self.activation = F.silu if activation == "swish" else F.gelu

    def forward(self, x_BTD: Tensor) -> Tensor:
        """(B, T, D) → (B, T, D)."""
        return self.down_proj(self.dropout(self.activation(self.up_proj(x_BTD))))


def build_feed_forward(model: ModelConfig) -> FeedForward:
    """Build the network with the model's activation."""
    if model.activation == "relu":
        return FeedForward(model.d_model, model.ffn_size, model.activation_dropout)
    return SmoothFeedForward(model.d_model, model.ffn_size, model.activation_dropout, model.activation)
