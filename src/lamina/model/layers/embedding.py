"""Token embeddings: √d·E[token] + PE, with dropout."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn

from lamina.errors import UsageError
from lamina.model.layers.attention import mask_padding
from lamina.model.layers.dropout import Dropout, keep_mask
from lamina.model.layers.positions import Positions, count_positions
from lamina.model.states import EncoderStates
from lamina.text.vocabulary import PAD

if TYPE_CHECKING:
    from lamina.model.config import ModelConfig


class TokenEmbedding(nn.Embedding):
    """√d·E[token], E ~ N(0, 1/d), with a zero row for padding."""

    def __init__(self, entries: int, d_model: int) -> None:
        super().__init__(entries, d_model, padding_idx=PAD)

    def reset_parameters(self) -> None:
        nn.init.normal_(self.weight, std=self.embedding_dim**-0.5)
        with torch.no_grad():
            self.weight[PAD].zero_()

    def forward(self, tokens: Tensor) -> Tensor:
        """(…) → (…, D)."""
        return super().forward(tokens) * math.sqrt(self.embedding_dim)


class SourceEmbedding(nn.Module):
    """Computes the encoder's input, and the surface states, which are the same without positions.

    Both share one dropout mask. `surface_positions` keeps the positions in the surface states (Liu et al. 2021
    published models of both kinds).
    """

    def __init__(self, tokens: TokenEmbedding, positions: Positions, dropout: float, surface_positions: bool):
        super().__init__()
        self.tokens = tokens
        self.positions = positions
        self.dropout = dropout
        self.surface_positions = surface_positions

    def forward(self, source_BS: Tensor, valid_BS: Tensor) -> EncoderStates:
        """Encoder states before the first layer."""
        surface_BSD = self.tokens(source_BS)
        positions_BSD = self.positions(count_positions(valid_BS), source_BS.shape[1])
        embedded_BSD = surface_BSD + positions_BSD.to(surface_BSD.dtype)
        if self.surface_positions:
            surface_BSD = embedded_BSD
        if self.training and self.dropout > 0:
            mask_BSD = keep_mask(embedded_BSD, self.dropout)
            surface_BSD, embedded_BSD = surface_BSD * mask_BSD, embedded_BSD * mask_BSD
        mask_B11S = mask_padding(valid_BS, embedded_BSD)
        return EncoderStates(source_BS, valid_BS, mask_B11S, surface_BSD, embedded_BSD, top_BSD=embedded_BSD)


class TargetEmbedding(nn.Module):
    """Computes the decoder's input."""

    def __init__(self, tokens: TokenEmbedding, positions: Positions, dropout: float) -> None:
        super().__init__()
        self.tokens = tokens
        self.positions = positions
        self.dropout = Dropout(dropout)

    def forward(self, tokens_BT: Tensor) -> Tensor:
        """Embed tokens from the first position on; prefixes are padded on the right."""
        tokens_BTD = self.tokens(tokens_BT)
        positions_TD = self.positions.between(0, tokens_BT.shape[1], tokens_BT.device)
        x_BTD = tokens_BTD + positions_TD.to(tokens_BTD.dtype)
        return self.dropout(x_BTD) if self.training else x_BTD

    def step(self, tokens_R: Tensor, position: int) -> Tensor:
        """Embed one token of every row, all at the same position, without dropout."""
        tokens_RD = self.tokens.weight.index_select(0, tokens_R)
        positions_1D = self.positions.between(position, position + 1, tokens_R.device)
        return torch.add(positions_1D.to(tokens_RD.dtype), tokens_RD, alpha=math.sqrt(tokens_RD.shape[1]))


def check_tokens(name: str, tokens_BT: Tensor, entries: int, shape: Sequence[int] = ()) -> None:
    """Check that token ids are integers whose shape starts with `shape` and, on a CPU, that the vocabulary has them."""
    if not isinstance(tokens_BT, Tensor):
        raise UsageError(f"The {name} must be a tensor of token ids, but is a {type(tokens_BT).__name__} instead.")
    if tokens_BT.dim() != 2 or tokens_BT.is_floating_point():
        given = f"{tuple(tokens_BT.shape)} of {tokens_BT.dtype}"
        raise UsageError(f"The {name} must be a (batch, length) tensor of token ids, but is {given} instead.")
    expected = (*shape, *tokens_BT.shape[len(shape) :])
    if tokens_BT.shape != expected:
        raise UsageError(f"The {name} must have shape {expected}, but has {tuple(tokens_BT.shape)} instead.")
    tracing: bool = torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]
    if tokens_BT.device.type == "cpu" and tokens_BT.numel() and not (tracing or torch.compiler.is_compiling()):
        lowest, highest = (int(extreme) for extreme in tokens_BT.aminmax())
        if lowest < 0 or highest >= entries:
            raise UsageError(
                f"The {name} has ids from {lowest} to {highest}, but its vocabulary has {entries} entries."
            )


def build_embeddings(config: ModelConfig) -> tuple[TokenEmbedding, TokenEmbedding, nn.Parameter]:
    """Source embedding, target embedding and softmax matrix, shared as configured."""
    target = TokenEmbedding(config.target_vocab, config.d_model)
    shared = config.share_embeddings
    source = target if shared == "all" else TokenEmbedding(config.source_vocab, config.d_model)
    if shared == "none":
        return (
            source,
            target,
            nn.Parameter(torch.randn(config.target_vocab, config.d_model) * config.d_model**-0.5),
        )
    return source, target, cast("nn.Parameter", target.weight)
