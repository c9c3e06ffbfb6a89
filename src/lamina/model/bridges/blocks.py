"""Block-scale collaboration: decoder layer n reads the output of encoder block n."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, PositiveInt
from torch import nn

from lamina.errors import Problem
from lamina.model.blocks import block_ends, check_blocks, split_evenly
from lamina.model.layers.residuals import norm_if_pre
from lamina.model.settings import BridgeSettings
from lamina.model.states import EncoderStates, Memory

if TYPE_CHECKING:
    from lamina.model.config import ModelConfig


class BlocksSettings(BridgeSettings):
    """`type: blocks`. By default it uses the encoder's blocks, or equal ones."""

    type: Literal["blocks"] = "blocks"
    blocks: Annotated[tuple[PositiveInt, ...], Field(strict=False)] | None = None  # layers per block

    def sizes(self, model: ModelConfig) -> tuple[int, ...]:
        """M_1..M_N; N is the decoder's depth."""
        own = model.encoder.block_sizes(model)
        return self.blocks or own or split_evenly(model.encoder.layers, model.decoder.layers)

    def problems(self, model: ModelConfig) -> Iterator[Problem]:
        """Blocks must match the depths of encoder and decoder."""
        if self.blocks is not None or model.encoder.block_sizes(model) is None:
            yield from check_blocks("bridge", self.type, self.blocks, model)

    def build(self, model: ModelConfig) -> BlocksBridge:
        return BlocksBridge(self.sizes(model), model)


class BlocksBridge(nn.Module):
    """Block-scale collaboration (Wei et al. 2020, Eq. 7): decoder layer n reads B^n, the output of block n."""

    def __init__(self, sizes: tuple[int, ...], model: ModelConfig) -> None:
        super().__init__()
        self.ends = block_ends(sizes)
        self.norms = nn.ModuleList(norm_if_pre(model.d_model, model.norm) for _ in sizes)

    def forward(self, enc: EncoderStates) -> tuple[Memory, ...]:
        return tuple(
            Memory((norm(enc.layers[end]),), enc.valid_BS) for norm, end in zip(self.norms, self.ends, strict=True)
        )
