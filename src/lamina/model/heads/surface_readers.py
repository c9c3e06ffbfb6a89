"""Readers of the source's surface states for SurfaceFusion: attention or pooling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from lamina.model.layers.attention import Attention, KeysValues, mask_memory
from lamina.model.states import EncoderStates


@dataclass(frozen=True)
class SurfaceKV:
    """A source as the attention reader needs it."""

    projected: KeysValues
    mask: Tensor | None


@dataclass(frozen=True)
class PooledSurface:
    """A source as a pooling reader needs it."""

    pooled_BD: Tensor


SurfaceMemory = SurfaceKV | PooledSurface


class AttentionReader(nn.Module):
    """r = MHA_sf(q = stopgrad(z), k = stopgrad(H), v = s): the alignment sends no gradient to encoder and decoder."""

    def __init__(self, d_model: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.attention = Attention(d_model, heads, dropout)

    def project_source(self, enc: EncoderStates) -> SurfaceKV:
        """Keys from the encoder's final states, values from the surface."""
        (keys_BHSK,) = self.attention.project(enc.top_BSD.detach(), 1, 2)
        values_BHSK = self.attention.value(enc.surface_BSD)
        return SurfaceKV(
            KeysValues(keys_BHSK.contiguous(), values_BHSK.contiguous()), mask_memory(enc.valid_BS, keys_BHSK)
        )

    def forward(self, query_BTD: Tensor, memory: SurfaceMemory) -> Tensor:
        """(B, T, D)."""
        assert isinstance(memory, SurfaceKV)
        return self.attention.read(query_BTD.detach(), memory.projected, memory.mask)


class PooledReader(nn.Module):
    """Mean or max pooling of s over real tokens, with the same r at every target position.

    `from_id` pools like the published code: s is first multiplied by [id ≥ from_id]; the mean divides by the number of
    such ids (at least 1), the maximum includes the zeroed positions.
    """

    def __init__(self, pool: Literal["mean", "max"], from_id: int | None) -> None:
        super().__init__()
        self.pool = pool
        self.from_id = from_id

    def project_source(self, enc: EncoderStates) -> PooledSurface:
        """The pooled states, (B, D)."""
        pooled_BS = enc.valid_BS if self.from_id is None else enc.source_BS >= self.from_id
        if self.pool == "mean":
            counts_B1 = pooled_BS.sum(dim=1, keepdim=True).clamp(min=1)
            return PooledSurface((enc.surface_BSD * pooled_BS[..., None]).sum(dim=1) / counts_B1)
        outside = torch.finfo(enc.surface_BSD.dtype).min if self.from_id is None else 0.0
        return PooledSurface(enc.surface_BSD.masked_fill(~pooled_BS[..., None], outside).amax(dim=1))

    def forward(self, query_BTD: Tensor, memory: SurfaceMemory) -> Tensor:
        """(B, T, D)."""
        assert isinstance(memory, PooledSurface)
        return memory.pooled_BD[:, None].expand_as(query_BTD)
