"""The encoder of MSC: blocks of layers that also attend to a context, which a cell carries from block to block.

              ┌──────── C^{n-1} ───────────────► cell ──► C^n     one cell, shared by all blocks
              │                                   ▲
B^{n-1} ──► layer ──► layer ──► … ──► layer ──────┴────► B^n      M_n layers, each with its own weights
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import torch
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from lamina.base.settings import Depth
from lamina.errors import Problem
from lamina.model.blocks import block_ends, check_blocks, split_evenly
from lamina.model.encoders.stack import EncoderLayer
from lamina.model.layers.attention import Attention, KeysValues, project_together
from lamina.model.layers.fusion import Fusion, build_fusion
from lamina.model.layers.residuals import as_product, norm_if_pre
from lamina.model.settings import EncoderSettings
from lamina.model.states import EncoderStates

if TYPE_CHECKING:
    from lamina.model.config import ModelConfig


class MscSettings(EncoderSettings):
    """`type: msc`. The options are the ablations of Wei et al. (2020), Table 5."""

    type: Literal["msc"] = "msc"
    layers: Depth
    blocks: Annotated[tuple[PositiveInt, ...], Field(strict=False)] | None = None  # layers of each block; None: equal
    fusion: Fusion = "gate"  # how self-attention and context attention are combined
    cell: Literal["gru", "ffn"] = "gru"  # computes a block's context from its output and the previous context
    context_attention: bool = True  # whether layers attend to the previous block's context

    makes_contexts: ClassVar[bool] = True

    def block_sizes(self, model: ModelConfig) -> tuple[int, ...]:
        """M_1..M_N; N is the decoder's depth."""
        return self.blocks or split_evenly(self.layers, model.decoder.layers)

    def problems(self, model: ModelConfig) -> Iterator[Problem]:
        """Blocks must match the depths, and the contexts must be read by layers or the bridge."""
        yield from check_blocks("encoder", self.type, self.blocks, model)
        if not self.context_attention and self.fusion != "gate":
            yield Problem("encoder.fusion", "requires `context_attention`, which is off.")
        if not self.context_attention and not model.bridge.reads_contexts:
            yield Problem(
                "encoder.context_attention",
                f"bridge `{model.bridge.type}` does not read the contexts of encoder `msc`. "
                "Use bridge `collaborative`, or encoder `stack`.",
            )

    def build(self, model: ModelConfig) -> MscEncoder:
        return MscEncoder(self, model)


class MscLayer(EncoderLayer):
    """An encoder layer that fuses self-attention with attention to the context (Eq. 12)."""

    def __init__(self, settings: MscSettings, model: ModelConfig) -> None:
        super().__init__(model)
        self.context_attention = Attention(model.d_model, model.heads, model.attention_dropout, cross=True)
        self.fusion = build_fusion(settings.fusion, model.d_model)

    def attend(self, x_BSD: Tensor, mask_B11S: Tensor, context: tuple[Tensor, ...]) -> Tensor:
        """Fuse self-attention with attention to `context`: LN(C^{n-1}), or its keys and values."""
        reader = self.context_attention
        memory = KeysValues(*context) if len(context) == 2 else reader.project_kv(context[0])
        return self.fusion(self.attention(x_BSD, mask_B11S), reader.read(x_BSD, memory, mask_B11S))


class GruCell(nn.GRUCell):
    """C^n = GRU(state = C^{n-1}, input = B^n), position-wise (Eq. 9)."""

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model, d_model)

    def forward(self, context_BSD: Tensor, block_BSD: Tensor) -> Tensor:  # type: ignore[override]
        """Both (B, S, D)."""
        state = super().forward(block_BSD.flatten(0, 1), context_BSD.flatten(0, 1))
        return state.view_as(context_BSD)


class FfnCell(nn.Module):
    """The ablation without a recurrent cell (Table 5): C^n = W2·relu(W1·[C^{n-1};B^n])."""

    def __init__(self, d_model: int, hidden: int) -> None:
        super().__init__()
        self.up_proj = nn.Linear(2 * d_model, hidden)
        self.down_proj = nn.Linear(hidden, d_model)

    def forward(self, context_BSD: Tensor, block_BSD: Tensor) -> Tensor:
        """Both (B, S, D)."""
        return self.down_proj(self.up_proj(torch.cat([context_BSD, block_BSD], dim=-1)).relu())


class MscEncoder(nn.Module):
    """Multiscale collaborative encoder (Wei et al. 2020, Eq. 9-12).

    B^0 = C^0 = the encoder's input. One cell is shared by all blocks and one norm of C^{n-1} by the layers
    of a block, which follows from the paper's parameter counts. C^N is computed only if the bridge reads it.
    """

    def __init__(self, settings: MscSettings, model: ModelConfig) -> None:
        super().__init__()
        self.sizes = settings.block_sizes(model)
        self.cells = len(self.sizes) if model.bridge.reads_contexts else len(self.sizes) - 1
        if settings.context_attention:
            self.layers = nn.ModuleList(MscLayer(settings, model) for _ in range(settings.layers))
            self.context_norms = nn.ModuleList(norm_if_pre(model.d_model, model.norm) for _ in self.sizes)
        else:
            self.layers = nn.ModuleList(EncoderLayer(model) for _ in range(settings.layers))
            self.context_norms = nn.ModuleList()
        if self.cells:
            gru = settings.cell == "gru"
            self.cell = GruCell(model.d_model) if gru else FfnCell(model.d_model, model.ffn_size)
        self.final_norm = norm_if_pre(model.d_model, model.norm, affine=model.bridge.reads_top)

    def forward(self, states: EncoderStates) -> EncoderStates:
        """Add the layers' outputs, the contexts and the final states."""
        x_BSD = context_BSD = states.embedded_BSD
        layers: list[Tensor] = []
        contexts: list[Tensor] = []
        for block, end in enumerate(block_ends(self.sizes)):
            block_layers = list(self.layers[len(layers) : end + 1])
            for layer, context in zip(block_layers, self.read_context(block, block_layers, context_BSD), strict=True):
                x_BSD = layer(x_BSD, states.mask_B11S, *context)
                layers.append(x_BSD)
            if block < self.cells:
                context_BSD = self.cell(context_BSD, x_BSD)
                contexts.append(context_BSD)
        return replace(states, layers=tuple(layers), contexts=tuple(contexts), top_BSD=self.final_norm(x_BSD))

    def read_context(self, block: int, layers: Sequence[nn.Module], context_BSD: Tensor) -> list[tuple[Tensor, ...]]:
        """Keys and values of C^{n-1} for each layer of a block, computed in one matrix product."""
        readers = [layer for layer in layers if isinstance(layer, MscLayer)]
        if not readers:
            return [()] * len(layers)
        normed_BSD = as_product(self.context_norms[block](context_BSD))
        if readers[0].recompute:  # a checkpointed layer projects the context itself
            return [(normed_BSD,)] * len(layers)
        memories = project_together([layer.context_attention for layer in readers], normed_BSD)
        return [(memory.keys_BHMK, memory.values_BHMK) for memory in memories]
