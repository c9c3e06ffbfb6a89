"""Tokens to vectors: √d·E[token] + PE, with dropout."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lamina.model.layers.positions import Positions, count_positions
from lamina.model.states import EncoderStates
from lamina.text.vocabulary import PAD


class TokenEmbedding(nn.Embedding):
    """√d·E[token], E ~ N(0, 1/d), the padding's row 0."""

    def __init__(self, entries: int, d_model: int) -> None:
        super().__init__(entries, d_model, padding_idx=PAD)

    def reset_parameters(self) -> None:
        """Draw E anew."""
        nn.init.normal_(self.weight, std=self.embedding_dim**-0.5)
        with torch.no_grad():
            self.weight[PAD].zero_()

    def forward(self, tokens: Tensor) -> Tensor:
        """(…) → (…, D)."""
        return super().forward(tokens) * math.sqrt(self.embedding_dim)


class SourceEmbedding(nn.Module):
    """Makes the encoder's input, and beside it the surface states: the same without positions.

    Both are under one dropout mask. `surface_positions` leaves the positions in the surface states
    (Liu et al. 2021 published models of both kinds).
    """

    def __init__(self, tokens: TokenEmbedding, positions: Positions, dropout: float, surface_positions: bool):
        super().__init__()
        self.tokens = tokens
        self.positions = positions
        self.dropout = dropout
        self.surface_positions = surface_positions

    def forward(self, source_BS: Tensor, valid_BS: Tensor) -> EncoderStates:
        """Encoder states before any encoder layer."""
        surface_BSD = self.tokens(source_BS)
        embedded_BSD = surface_BSD + self.positions(count_positions(valid_BS), source_BS.shape[1])
        if self.surface_positions:
            surface_BSD = embedded_BSD
        if self.training and self.dropout > 0:
            mask_BSD = F.dropout(torch.ones_like(embedded_BSD), self.dropout)
            surface_BSD, embedded_BSD = surface_BSD * mask_BSD, embedded_BSD * mask_BSD
        return EncoderStates(source_BS, valid_BS, surface_BSD, embedded_BSD, top_BSD=embedded_BSD)


class TargetEmbedding(nn.Module):
    """Makes the decoder's input."""

    def __init__(self, tokens: TokenEmbedding, positions: Positions, dropout: float) -> None:
        super().__init__()
        self.tokens = tokens
        self.positions = positions
        self.dropout = nn.Dropout(dropout)

    def forward(self, tokens_BT: Tensor, start: int = 0) -> Tensor:
        """Embed tokens at positions start, start+1, …; prefixes are padded on the right."""
        length = tokens_BT.shape[1]
        positions_T = torch.arange(start, start + length, device=tokens_BT.device)
        embedded_BTD = self.tokens(tokens_BT) + self.positions(positions_T, start + length)
        return self.dropout(embedded_BTD)
