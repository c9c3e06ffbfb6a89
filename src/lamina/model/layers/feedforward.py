"""The position-wise feed-forward network."""

from __future__ import annotations

from torch import Tensor, nn

from lamina.model.layers.dropout import Dropout


class FeedForward(nn.Module):
    """W2·relu(W1·x + b1) + b2, with dropout after the relu."""

    def __init__(self, d_model: int, hidden: int, activation_dropout: float) -> None:
        super().__init__()
        self.up_proj = nn.Linear(d_model, hidden)
        self.down_proj = nn.Linear(hidden, d_model)
        self.dropout = Dropout(activation_dropout)

    def forward(self, x_BTD: Tensor) -> Tensor:
        """(B, T, D) → (B, T, D)."""
        return self.down_proj(self.dropout(self.up_proj(x_BTD).relu_()))
