"""The decoder's attention to what it has written so far: four kinds, each whole-sentence and step by step.

`forward` sees every target position at once and keeps them causal. `step` sees one new position of every row
and returns the cache with it. Rows of one source are adjacent: x_BWD holds W rows (beams) of each of
B sources, so that a memory, kept once per source, is read by W queries.

Keys and values of past positions are kept the same way: once per source, those of all its rows in the order in which
they were written, and never moved. When search swaps rows, only the mask changes that says which of them each row
descends from.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lamina.model.layers.attention import Attention, KeysValues, join_heads, mask_keys

CAPACITY = 64  # keys of each source that a cache has room for at first


@dataclass(frozen=True)
class PastKeys:
    """Keys and values that all rows of a source have written so far, position by position, and room for more."""

    keys_BHMK: Tensor
    values_BHMK: Tensor

    def with_room(self, end: int) -> PastKeys:
        """An empty cache with room for this many keys per source."""
        batch, heads, size, width = self.keys_BHMK.shape
        if size >= end:
            return self
        keys, values = self.keys_BHMK.new_empty(2, batch, heads, max(end, 2 * size), width)
        keys[:, :, :size], values[:, :, :size] = self.keys_BHMK, self.values_BHMK
        return PastKeys(keys, values)

    def write(self, key_BHWK: Tensor, value_BHWK: Tensor, end: int) -> PastKeys:
        """Add one position of every row, up to `end`; a cache is written once at each position."""
        rows, past = key_BHWK.shape[2], self.with_room(end)
        past.keys_BHMK.narrow(2, end - rows, rows).copy_(key_BHWK)
        past.values_BHMK.narrow(2, end - rows, rows).copy_(value_BHWK)
        return past

    def until(self, end: int) -> KeysValues:
        """What has been written."""
        return KeysValues(self.keys_BHMK.narrow(2, 0, end), self.values_BHMK.narrow(2, 0, end))

    def reorder(self, rows_R: Tensor) -> PastKeys:
        """Nothing moves."""
        return self


@dataclass(frozen=True)
class RunningSum:
    """The cache of a running mean: its sum in every row."""

    sum_BWD: Tensor

    def reorder(self, rows_R: Tensor) -> RunningSum:
        """Each row takes another's sum."""
        return RunningSum(take_rows(self.sum_BWD, rows_R))


def take_rows(x_BWX: Tensor, rows_R: Tensor) -> Tensor:
    """Rows by number, possibly more or fewer than before."""
    batch, _, width = x_BWX.shape
    return x_BWX.flatten(0, 1).index_select(0, rows_R).view(batch, len(rows_R) // max(1, batch), width)


Cache = PastKeys | RunningSum


@dataclass(frozen=True)
class StepContext:
    """The context of a decoding step: its position, and which past keys belong to each row."""

    position: int
    seen_BHWM: Tensor  # to be added to attention scores: 0, or so little that nothing is seen

    @property
    def end(self) -> int:
        """The number of keys of each source, those of this step included."""
        return self.seen_BHWM.shape[3]


@dataclass(frozen=True)
class CrossKV:
    """A memory as one decoder layer needs it: keys and values of every stream."""

    streams: tuple[KeysValues, ...]
    valid_BS: Tensor
    mask: Tensor | None  # the mask of real tokens for attention; None without padding


class TargetAttention(nn.Module, ABC):
    """One kind of attention over the target."""

    @property
    def memory_reader(self) -> Attention | None:
        """The attention that reads the memory, in kinds that take the place of cross-attention too."""
        return None

    @abstractmethod
    def forward(self, x_BTD: Tensor, memory: CrossKV) -> Tensor:
        """All positions, each seeing only those before it and itself."""

    @abstractmethod
    def step(self, x_BWD: Tensor, memory: CrossKV, cache: Cache, context: StepContext) -> tuple[Tensor, Cache]:
        """One new position of every row."""

    @abstractmethod
    def empty_cache(self, memory: CrossKV, rows: int) -> Cache:
        """The cache before the first position, with `rows` rows for each source."""


class SelfAttention(TargetAttention):
    """The Transformer's causal self-attention."""

    def __init__(self, attention: Attention) -> None:
        super().__init__()
        self.attention = attention

    def forward(self, x_BTD: Tensor, memory: CrossKV) -> Tensor:
        """Fused causal attention."""
        query_BHTK, keys_BHTK, values_BHTK = self.attention.project(x_BTD, 0, 3)
        attended_BTD = self.attention.attend(query_BHTK, KeysValues(keys_BHTK, values_BHTK), None, causal=True)
        return self.attention.out(attended_BTD)

    def step(self, x_BWD: Tensor, memory: CrossKV, cache: Cache, context: StepContext) -> tuple[Tensor, Cache]:
        """Attend from the newest position to each row's past and itself."""
        query_BHWK, cache = self.extend(x_BWD, cache, context)
        past = cache.until(context.end)
        return self.attention.out(self.attention.attend(query_BHWK, past, context.seen_BHWM)), cache

    def extend(self, x_BWD: Tensor, cache: Cache, context: StepContext) -> tuple[Tensor, PastKeys]:
        """The newest position's query, and the cache with its key and value."""
        assert isinstance(cache, PastKeys)
        query_BHWK, key_BHWK, value_BHWK = self.attention.project(x_BWD, 0, 3)
        return query_BHWK, cache.write(key_BHWK, value_BHWK, context.end)

    def empty_cache(self, memory: CrossKV, rows: int) -> PastKeys:
        """Room for keys and values."""
        keys_BHSK = memory.streams[0].keys_BHMK
        batch, heads, _, width = keys_BHSK.shape
        return PastKeys(*keys_BHSK.new_empty(2, batch, heads, CAPACITY, width))


class AverageAttention(TargetAttention):
    """AAN (Zhang et al. 2018): a running mean with an input and a forget gate, in a cache of constant size.

        [i;f] = σ(Wz·[y;ȳ] + b),   h = i⊙y + f⊙ȳ

    Without the paper's feed-forward network on ȳ, as its authors advise.
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.gates = nn.Linear(2 * d_model, 2 * d_model)

    def forward(self, x_BTD: Tensor, memory: CrossKV) -> Tensor:
        """The running mean at every position."""
        return self.mix(x_BTD, running_mean(x_BTD))

    def step(self, x_BWD: Tensor, memory: CrossKV, cache: Cache, context: StepContext) -> tuple[Tensor, Cache]:
        """The running mean at the newest position."""
        mean_BWD, cache = extend_mean(x_BWD, cache, context.position)
        return self.mix(x_BWD, mean_BWD), cache

    def mix(self, x_BTD: Tensor, mean_BTD: Tensor) -> Tensor:
        """The two gates."""
        enter_BTD, keep_BTD = self.gates(torch.cat([x_BTD, mean_BTD], dim=-1)).sigmoid().chunk(2, dim=-1)
        return enter_BTD * x_BTD + keep_BTD * mean_BTD

    def empty_cache(self, memory: CrossKV, rows: int) -> RunningSum:
        """A sum of nothing."""
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
        """Its only attention."""
        return self.attention

    def forward(self, x_BTD: Tensor, memory: CrossKV) -> Tensor:
        """Attention to the memory plus the running mean."""
        values_BTD = join_heads(self.attention.value(x_BTD))
        return self.merge(x_BTD, memory, running_mean(values_BTD))

    def step(self, x_BWD: Tensor, memory: CrossKV, cache: Cache, context: StepContext) -> tuple[Tensor, Cache]:
        """The same at the newest position."""
        mean_BWD, cache = extend_mean(join_heads(self.attention.value(x_BWD)), cache, context.position)
        return self.merge(x_BWD, memory, mean_BWD), cache

    def merge(self, x_BTD: Tensor, memory: CrossKV, mean_BTD: Tensor) -> Tensor:
        """Add before the output projection."""
        query_BHTK = self.attention.query(x_BTD)
        attended_BTD = self.attention.attend(query_BHTK, memory.streams[0], memory.mask)
        return self.attention.out(attended_BTD + mean_BTD)

    def empty_cache(self, memory: CrossKV, rows: int) -> RunningSum:
        """A sum of nothing."""
        return empty_sum(memory, rows)


class MixedAttention(SelfAttention):
    """Coordination (He et al. 2018): one attention over [memory ; y_≤t], source fully visible, target causal."""

    @property
    def memory_reader(self) -> Attention:
        """Its only attention."""
        return self.attention

    def forward(self, x_BTD: Tensor, memory: CrossKV) -> Tensor:
        """Fused attention over the concatenation."""
        query_BHTK, keys_BHTK, values_BHTK = self.attention.project(x_BTD, 0, 3)
        (stream,) = memory.streams
        both = KeysValues(
            torch.cat([stream.keys_BHMK, keys_BHTK], dim=2),
            torch.cat([stream.values_BHMK, values_BHTK], dim=2),
        )
        batch, length, _ = x_BTD.shape
        source_B1TS = mask_keys(memory.valid_BS).expand(-1, -1, length, -1)
        causal_TT = torch.ones(length, length, dtype=torch.bool, device=x_BTD.device).tril()
        mask_B1TM = torch.cat([source_B1TS, causal_TT.expand(batch, 1, -1, -1)], dim=3)
        return self.attention.out(self.attention.attend(query_BHTK, both, mask_B1TM))

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
        read_BHWK = source_BHWS @ stream.values_BHMK + target_BHWT @ past.values_BHMK
        return self.attention.out(join_heads(read_BHWK)), cache


def empty_sum(memory: CrossKV, rows: int) -> RunningSum:
    """The sum before the first position, in at least 32 bits however long it grows."""
    keys_BHSK = memory.streams[0].keys_BHMK
    size = (keys_BHSK.shape[0], rows, keys_BHSK.shape[1] * keys_BHSK.shape[3])
    return RunningSum(keys_BHSK.new_zeros(size, dtype=torch.promote_types(keys_BHSK.dtype, torch.float32)))


def running_mean(x_BTD: Tensor) -> Tensor:
    """At every position the mean of all positions up to it."""
    precise = torch.promote_types(x_BTD.dtype, torch.float32)
    counts_T = torch.arange(1, x_BTD.shape[1] + 1, device=x_BTD.device, dtype=precise)
    return (x_BTD.cumsum(dim=1, dtype=precise) / counts_T[:, None]).to(x_BTD.dtype)


def extend_mean(x_BWD: Tensor, cache: Cache, position: int) -> tuple[Tensor, RunningSum]:
    """The mean including the newest position, and the sum for the next."""
    assert isinstance(cache, RunningSum)
    sum_BWD = cache.sum_BWD + x_BWD
    return (sum_BWD / (position + 1)).to(x_BWD.dtype), RunningSum(sum_BWD)
