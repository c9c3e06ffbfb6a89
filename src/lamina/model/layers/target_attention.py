"""The decoder's attention to the target prefix: four kinds, each for whole sentences and step by step.

`forward` computes all target positions at once, causally. `step` computes one new position of every row and returns
the extended cache. Rows of one source are adjacent: x_BWD holds the W rows (beams) of each of B sources, so that a
memory, stored once per source, is read by W queries.

Keys and values of past positions are also stored per source, for all its rows in the order of writing, and never move.
When search reorders rows, only the mask changes, which selects the past keys of each row.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lamina.model.layers.attention import Attention, KeysValues, join_heads, mask_keys

CAPACITY = 64  # initial number of keys per source


@dataclass(frozen=True)
class PastKeys:
    """The key-value cache of all rows of a source, in the order of writing, with spare capacity."""

    keys_BHMK: Tensor
    values_BHMK: Tensor

    def with_room(self, end: int) -> PastKeys:
        """This cache, enlarged if necessary to hold `end` keys per source."""
        batch, heads, size, width = self.keys_BHMK.shape
        if size >= end:
            return self
        keys, values = self.keys_BHMK.new_empty(2, batch, heads, max(end, 2 * size), width)
        keys[:, :, :size], values[:, :, :size] = self.keys_BHMK, self.values_BHMK
        return PastKeys(keys, values)

    def write(self, key_BHWK: Tensor, value_BHWK: Tensor, end: int) -> PastKeys:
        """Append one position of every row, whose keys end at `end`; each position is written once."""
        rows, past = key_BHWK.shape[2], self.with_room(end)
        past.keys_BHMK.narrow(2, end - rows, rows).copy_(key_BHWK)
        past.values_BHMK.narrow(2, end - rows, rows).copy_(value_BHWK)
        return past

    def until(self, end: int) -> KeysValues:
        """The first `end` keys and values."""
        return KeysValues(self.keys_BHMK.narrow(2, 0, end), self.values_BHMK.narrow(2, 0, end))

    def reorder(self, rows_R: Tensor) -> PastKeys:
        """No-op: the mask of the decoder cache selects each row's keys."""
        return self


@dataclass(frozen=True)
class RunningSum:
    """The cache of a running mean: the sum of each row."""

    sum_BWD: Tensor

    def reorder(self, rows_R: Tensor) -> RunningSum:
        return RunningSum(take_rows(self.sum_BWD, rows_R))


def take_rows(x_BWX: Tensor, rows_R: Tensor) -> Tensor:
    """Select rows by index; their number may change."""
    batch, _, width = x_BWX.shape
    return x_BWX.flatten(0, 1).index_select(0, rows_R).view(batch, len(rows_R) // max(1, batch), width)


Cache = PastKeys | RunningSum


@dataclass(frozen=True)
class StepContext:
    """A decoding step: its position, and which past keys belong to each row."""

    position: int
    seen_BHWM: Tensor  # additive mask: 0 for a row's own keys, else the lowest value

    @property
    def end(self) -> int:
        """The number of keys of each source, those of this step included."""
        return self.seen_BHWM.shape[3]


@dataclass(frozen=True)
class CrossKV:
    """The memory of one decoder layer: keys and values of every stream."""

    streams: tuple[KeysValues, ...]
    valid_BS: Tensor
    mask: Tensor | None  # additive padding mask; None without padding


class TargetAttention(nn.Module, ABC):
    """Attention over the target prefix."""

    @property
    def memory_reader(self) -> Attention | None:
        """The attention that reads the memory, in kinds that replace cross-attention as well."""
        return None

    @abstractmethod
    def forward(self, x_BTD: Tensor, memory: CrossKV) -> Tensor:
        """Compute all positions causally."""

    @abstractmethod
    def step(self, x_BWD: Tensor, memory: CrossKV, cache: Cache, context: StepContext) -> tuple[Tensor, Cache]:
        """Compute one new position of every row."""

    @abstractmethod
    def empty_cache(self, memory: CrossKV, rows: int) -> Cache:
        """The cache before the first position, with `rows` rows for each source."""


class SelfAttention(TargetAttention):
    """Causal self-attention."""

    def __init__(self, attention: Attention) -> None:
        super().__init__()
        self.attention = attention

    def forward(self, x_BTD: Tensor, memory: CrossKV) -> Tensor:
        query_BHTK, keys_BHTK, values_BHTK = self.attention.project(x_BTD, 0, 3)
        attended_BTD = self.attention.attend(query_BHTK, KeysValues(keys_BHTK, values_BHTK), None, causal=True)
        return self.attention.out(attended_BTD)

    def step(self, x_BWD: Tensor, memory: CrossKV, cache: Cache, context: StepContext) -> tuple[Tensor, Cache]:
        query_BHWK, cache = self.extend(x_BWD, cache, context)
        past = cache.until(context.end)
        return self.attention.out(self.attention.attend(query_BHWK, past, context.seen_BHWM)), cache

    def extend(self, x_BWD: Tensor, cache: Cache, context: StepContext) -> tuple[Tensor, PastKeys]:
        """The newest position's query, and the cache with its key and value."""
        assert isinstance(cache, PastKeys)
        query_BHWK, key_BHWK, value_BHWK = self.attention.project(x_BWD, 0, 3)
        return query_BHWK, cache.write(key_BHWK, value_BHWK, context.end)

    def empty_cache(self, memory: CrossKV, rows: int) -> PastKeys:
        keys_BHSK = memory.streams[0].keys_BHMK
        batch, heads, _, width = keys_BHSK.shape
        return PastKeys(*keys_BHSK.new_empty(2, batch, heads, CAPACITY, width))


class AverageAttention(TargetAttention):
    """AAN (Zhang et al. 2018): a running mean with an input and a forget gate, in a cache of constant size.

        [i;f] = σ(Wz·[y;ȳ] + b),   h = i⊙y + f⊙ȳ

    Without the paper's feed-forward network on ȳ, as its authors recommend.
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.gates = nn.Linear(2 * d_model, 2 * d_model)

    def forward(self, x_BTD: Tensor, memory: CrossKV) -> Tensor:
        return self.mix(x_BTD, running_mean(x_BTD))

    def step(self, x_BWD: Tensor, memory: CrossKV, cache: Cache, context: StepContext) -> tuple[Tensor, Cache]:
        mean_BWD, cache = extend_mean(x_BWD, cache, context.position)
        return self.mix(x_BWD, mean_BWD), cache

    def mix(self, x_BTD: Tensor, mean_BTD: Tensor) -> Tensor:
        """i⊙y + f⊙ȳ."""
        input_BTD, forget_BTD = self.gates(torch.cat([x_BTD, mean_BTD], dim=-1)).sigmoid().chunk(2, dim=-1)
        return input_BTD * x_BTD + forget_BTD * mean_BTD

    def empty_cache(self, memory: CrossKV, rows: int) -> RunningSum:
        return empty_sum(memory, rows)


class MergedAttention(TargetAttention):
    """MAtt (Zhang et al. 2019): self- and cross-attention in one sublayer.

    Wo·(heads(softmax(qkᵀ)v) + running mean of Wv·y)        k, v of the memory; Wv shared
    """

    def __init__(self, attention: Attention) -> None:
        super().__init__()
        self.attention = attention

    @property
    def memory_reader(self) -> Attention:
        return self.attention

    def forward(self, x_BTD: Tensor, memory: CrossKV) -> Tensor:
        values_BTD = join_heads(self.attention.value(x_BTD))
        return self.merge(x_BTD, memory, running_mean(values_BTD))

    def step(self, x_BWD: Tensor, memory: CrossKV, cache: Cache, context: StepContext) -> tuple[Tensor, Cache]:
        mean_BWD, cache = extend_mean(join_heads(self.attention.value(x_BWD)), cache, context.position)
        return self.merge(x_BWD, memory, mean_BWD), cache

    def merge(self, x_BTD: Tensor, memory: CrossKV, mean_BTD: Tensor) -> Tensor:
        """Add the mean to the attended memory, before the output projection."""
        query_BHTK = self.attention.query(x_BTD)
        attended_BTD = self.attention.attend(query_BHTK, memory.streams[0], memory.mask)
        return self.attention.out(attended_BTD + mean_BTD)

    def empty_cache(self, memory: CrossKV, rows: int) -> RunningSum:
        return empty_sum(memory, rows)


class MixedAttention(SelfAttention):
    """Coordination (He et al. 2018): one attention over [memory ; y_≤t], source fully visible, target causal."""

    @property
    def memory_reader(self) -> Attention:
        return self.attention

    def forward(self, x_BTD: Tensor, memory: CrossKV) -> Tensor:
        query_BHTK, keys_BHTK, values_BHTK = self.attention.project(x_BTD, 0, 3)
        (stream,) = memory.streams
        joined = KeysValues(
            torch.cat([stream.keys_BHMK, keys_BHTK], dim=2),
            torch.cat([stream.values_BHMK, values_BHTK], dim=2),
        )
        batch, length, _ = x_BTD.shape
        source_B1TS = mask_keys(memory.valid_BS).expand(-1, -1, length, -1)
        causal_TT = torch.ones(length, length, dtype=torch.bool, device=x_BTD.device).tril()
        mask_B1TM = torch.cat([source_B1TS, causal_TT.expand(batch, 1, -1, -1)], dim=3)
        return self.attention.out(self.attention.attend(query_BHTK, joined, mask_B1TM))

    def step(self, x_BWD: Tensor, memory: CrossKV, cache: Cache, context: StepContext) -> tuple[Tensor, Cache]:
        """One softmax over scores against the shared memory and against each row's own past."""
        query_BHWK, cache = self.extend(x_BWD, cache, context)
        (stream,), past = memory.streams, cache.until(context.end)
        scale = query_BHWK.shape[-1] ** -0.5
        source_BHWS = query_BHWK @ stream.keys_BHMK.transpose(-1, -2) * scale
        source_BHWS = source_BHWS.masked_fill(~mask_keys(memory.valid_BS), -torch.inf)
        target_BHWT = query_BHWK @ past.keys_BHMK.transpose(-1, -2) * scale + context.seen_BHWM
        weights_BHWM = torch.cat([source_BHWS, target_BHWT], dim=-1).softmax(dim=-1)
        source_BHWS, target_BHWT = weights_BHWM.split([source_BHWS.shape[-1], target_BHWT.shape[-1]], dim=-1)
        attended_BHWK = source_BHWS @ stream.values_BHMK + target_BHWT @ past.values_BHMK
        return self.attention.out(join_heads(attended_BHWK)), cache


def empty_sum(memory: CrossKV, rows: int) -> RunningSum:
    """The sum before the first position, in at least 32 bits."""
    keys_BHSK = memory.streams[0].keys_BHMK
    size = (keys_BHSK.shape[0], rows, keys_BHSK.shape[1] * keys_BHSK.shape[3])
    return RunningSum(keys_BHSK.new_zeros(size, dtype=torch.promote_types(keys_BHSK.dtype, torch.float32)))


def running_mean(x_BTD: Tensor) -> Tensor:
    """The mean of all positions up to each position."""
    precise = torch.promote_types(x_BTD.dtype, torch.float32)
    counts_T = torch.arange(1, x_BTD.shape[1] + 1, device=x_BTD.device, dtype=precise)
    return (x_BTD.cumsum(dim=1, dtype=precise) / counts_T[:, None]).to(x_BTD.dtype)


def extend_mean(x_BWD: Tensor, cache: Cache, position: int) -> tuple[Tensor, RunningSum]:
    """The mean including the newest position, and the extended cache."""
    assert isinstance(cache, RunningSum)
    sum_BWD = cache.sum_BWD + x_BWD
    return (sum_BWD / (position + 1)).to(x_BWD.dtype), RunningSum(sum_BWD)
