"""The decoder, with configurable target attention, wiring and number of memory streams."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Literal, cast

import torch
from torch import Tensor, nn

from lamina.base.settings import Depth, Settings
from lamina.errors import Problem
from lamina.model.bridges.grown import GrownBridgeSettings
from lamina.model.layers.attention import Attention, KeysValues, additive_mask, mask_memory
from lamina.model.layers.dlcl import DlclWiring
from lamina.model.layers.feedforward import build_feed_forward
from lamina.model.layers.growth import GrownWiring
from lamina.model.layers.modules import Modules
from lamina.model.layers.residuals import Residual, ResidualWiring, Wiring, norm_if_pre, run_stack
from lamina.model.layers.target_attention import (
    AverageAttention,
    Cache,
    CrossKV,
    MergedAttention,
    MixedAttention,
    SelfAttention,
    StepContext,
    TargetAttention,
    take_rows,
)
from lamina.model.states import DecoderStates, Memory

if TYPE_CHECKING:
    from lamina.model.config import ModelConfig
    from lamina.model.encoders.stack import EncoderLayer


class DecoderSettings(Settings):
    """A recipe's `model.decoder`."""

    layers: Depth  # number of layers
    attention: Literal["self", "average", "merged", "mixed"] = "self"  # how a layer attends to target and memory
    wiring: Literal["residual", "dlcl"] = "residual"  # a layer reads the layer below, or all below
    tie_encoder: bool = False  # `mixed` only: layer j shares attention and feed-forward with encoder layer j

    def problems(self, model: ModelConfig) -> Iterator[Problem]:
        """Merged and mixed attention read one stream; tying needs an encoder layer for every decoder layer."""
        if self.attention in ("merged", "mixed") and model.bridge.streams > 1:
            yield Problem(
                "decoder.attention",
                f"decoder attention `{self.attention}` reads one memory stream, but bridge "
                f"`{model.bridge.type}` gives {model.bridge.streams}. Use `self` or `average`.",
            )
        if self.tie_encoder and self.attention != "mixed":
            yield Problem(
                "decoder.tie_encoder",
                f"needs decoder attention `mixed`, but it is `{self.attention}` instead.",
            )
        if self.tie_encoder and self.layers != model.encoder.layers:
            yield Problem(
                "decoder.tie_encoder",
                f"needs as many encoder as decoder layers, but there are {model.encoder.layers} and {self.layers}.",
            )


class CrossAttention(nn.Module):
    """Attention to a memory of one stream, or of two that a gate fuses (Wei et al. 2020, Eq. 13)."""

    def __init__(self, model: ModelConfig) -> None:
        super().__init__()
        self.streams: Modules[Attention] = Modules(
            Attention(model.d_model, model.heads, model.attention_dropout, cross=True)
            for _ in range(model.bridge.streams)
        )
        self.fusion = model.bridge.build_fusion(model.d_model)

    def forward(self, x_BTD: Tensor, memory: CrossKV) -> Tensor:
        """(B, T, D) → (B, T, D); in search T is the beam of one source."""
        return self.fusion(
            *(
                attention.read(x_BTD, stream, memory.mask)
                for attention, stream in zip(self.streams, memory.streams, strict=True)
            )
        )


class DecoderLayer(nn.Module):
    """Target attention, cross-attention unless the former reads the memory too, and feed-forward."""

    def __init__(self, model: ModelConfig, twin: EncoderLayer | None) -> None:
        super().__init__()
        self.target_attention = build_target_attention(model, twin)
        self.target_residual = Residual(model.d_model, model.norm, model.dropout)
        if self.target_attention.memory_reader is None:
            self.cross_attention = CrossAttention(model)
            self.cross_residual = Residual(model.d_model, model.norm, model.dropout)
        self.feed_forward = twin.feed_forward if twin else build_feed_forward(model)
        self.feed_forward_residual = Residual(model.d_model, model.norm, model.dropout)

    @property
    def readers(self) -> list[Attention]:
        """The attentions that read the memory, one for each of its streams."""
        reader = self.target_attention.memory_reader
        return [reader] if reader is not None else list(self.cross_attention.streams)

    def project_memory(self, memory: Memory) -> tuple[KeysValues, ...]:
        """Project every stream of a memory to keys and values, once per source."""
        return tuple(reader.project_kv(x_BSD) for reader, x_BSD in zip(self.readers, memory.streams, strict=True))

    def forward(self, x_BTD: Tensor, memory: CrossKV) -> Tensor:
        """Compute all target positions at once."""
        attended_BTD = self.target_attention(self.target_residual.pre_norm(x_BTD), memory)
        return self.read(self.target_residual.add_residual(x_BTD, attended_BTD), memory)

    def step(self, x_BWD: Tensor, memory: CrossKV, cache: Cache, context: StepContext) -> tuple[Tensor, Cache]:
        """Compute one new position of every row."""
        normed_BWD = self.target_residual.pre_norm(x_BWD)
        attended_BWD, cache = self.target_attention.step(normed_BWD, memory, cache, context)
        return self.read(self.target_residual.add_residual(x_BWD, attended_BWD), memory), cache

    def read(self, x_BTD: Tensor, memory: CrossKV) -> Tensor:
        """The sublayers after the target attention, which treat every position independently."""
        if self.target_attention.memory_reader is None:
            attended_BTD = self.cross_attention(self.cross_residual.pre_norm(x_BTD), memory)
            x_BTD = self.cross_residual.add_residual(x_BTD, attended_BTD)
        transformed_BTD = self.feed_forward(self.feed_forward_residual.pre_norm(x_BTD))
        return self.feed_forward_residual.add_residual(x_BTD, transformed_BTD)


def build_target_attention(model: ModelConfig, twin: EncoderLayer | None) -> TargetAttention:
    """Build the configured target attention; a tied layer shares the weights of its twin."""
    kind = model.decoder.attention
    if kind == "average":
        return AverageAttention(model.d_model)
    attention = twin.attention if twin else Attention(model.d_model, model.heads, model.attention_dropout)
    kinds: dict[str, Callable[[Attention], TargetAttention]] = {
        "self": SelfAttention,
        "merged": MergedAttention,
        "mixed": MixedAttention,
    }
    return kinds[kind](attention)


@dataclass(frozen=True)
class DecoderCache:
    """The state of incremental decoding: every layer's cache, and which past keys belong to each row."""

    layers: tuple[Cache, ...]
    seen_BWM: Tensor  # additive mask over the keys of all rows: 0 for a row's own past, else the lowest value
    position: int

    def reorder(self, rows_R: Tensor) -> DecoderCache:
        """Replace row i by row `rows_R[i]`, which belongs to the same source."""
        layers = tuple(layer.reorder(rows_R) for layer in self.layers)
        return DecoderCache(layers, take_rows(self.seen_BWM, rows_R), self.position)


@cache
def own_past_mask(rows: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Mask of one position's keys: each row sees its own only."""
    return additive_mask(torch.eye(rows, dtype=torch.bool, device=device), dtype)


class Decoder(nn.Module):
    """Maps embedded targets to the states of every layer, for whole sentences or step by step."""

    def __init__(self, model: ModelConfig, encoder: nn.Module) -> None:
        super().__init__()
        twins = (
            cast("Iterable[EncoderLayer]", encoder.layers)
            if model.decoder.tie_encoder
            else [None] * model.decoder.layers
        )
        self.layers: Modules[DecoderLayer] = Modules(DecoderLayer(model, twin) for twin in twins)
        dense = model.decoder.wiring == "dlcl"
        combinations = model.decoder.layers + 1
        self.wiring: Wiring = DlclWiring(combinations, model.d_model, model.norm) if dense else ResidualWiring()
        if isinstance(model.bridge, GrownBridgeSettings):
            self.wiring = GrownWiring(model.bridge.trained_layers(model.decoder.layers), model.d_model)
        self.heads = model.heads
        self.final_norm = norm_if_pre(model.d_model, model.norm)

    def project_memories(self, memories: tuple[Memory, ...]) -> tuple[CrossKV, ...]:
        """Project every layer's memory to keys and values, once per source."""
        pairs = zip(self.layers, memories, strict=True)
        projected = [(layer.project_memory(memory), memory.valid_BS) for layer, memory in pairs]
        streams, first_valid_BS = projected[0]
        mask = mask_memory(first_valid_BS, streams[0].keys_BHMK)
        return tuple(
            CrossKV(
                streams, valid_BS, mask if valid_BS is first_valid_BS else mask_memory(valid_BS, streams[0].keys_BHMK)
            )
            for streams, valid_BS in projected
        )

    def forward(self, x_BTD: Tensor, memories: tuple[CrossKV, ...]) -> DecoderStates:
        """Compute all target positions at once."""
        layers = (partial(layer, memory=memory) for layer, memory in zip(self.layers, memories, strict=True))
        outputs, result_BTD = run_stack(self.wiring, x_BTD, layers)
        return DecoderStates(outputs, self.final_norm(result_BTD), x_BTD)

    def start(self, memories: tuple[CrossKV, ...], rows: int) -> DecoderCache:
        """The cache before the first position, with `rows` rows for each source."""
        pairs = zip(self.layers, memories, strict=True)
        layers = tuple(layer.target_attention.empty_cache(memory, rows) for layer, memory in pairs)
        keys_BHSK = memories[0].streams[0].keys_BHMK
        return DecoderCache(layers, keys_BHSK.new_zeros(len(keys_BHSK), rows, 0), 0)

    def step(
        self, x_BWD: Tensor, memories: tuple[CrossKV, ...], cache: DecoderCache
    ) -> tuple[DecoderStates, DecoderCache]:
        """Compute one new position of every row."""
        batch, rows, _ = x_BWD.shape
        own_WW = own_past_mask(rows, cache.seen_BWM.dtype, x_BWD.device)
        seen_BWM = torch.cat([cache.seen_BWM, own_WW.expand(batch, rows, rows)], dim=2)
        seen_BHWM = seen_BWM[:, None].expand(-1, self.heads, -1, -1).contiguous()
        context = StepContext(cache.position, seen_BHWM)
        caches: list[Cache] = []

        def advance(layer: DecoderLayer, memory: CrossKV, past: Cache, x_BWD: Tensor) -> Tensor:
            y_BWD, extended = layer.step(x_BWD, memory, past, context)
            caches.append(extended)
            return y_BWD

        layers = (
            partial(advance, layer, memory, past)
            for layer, memory, past in zip(self.layers, memories, cache.layers, strict=True)
        )
        outputs, result_BWD = run_stack(self.wiring, x_BWD, layers)
        extended = DecoderCache(tuple(caches), seen_BWM, cache.position + 1)
        return DecoderStates(outputs, self.final_norm(result_BWD), x_BWD), extended
