"""The decoder's attention to what it has written so far: four kinds, each whole-sentence and step by step.

`forward` sees every target position at once and keeps them causal. `step` sees one new position of every row
and returns the cache with it. Rows of one source stand beside each other: x_BWD holds W rows (beams) of each of
B sources, so that a memory, kept once per source, is read by W queries.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lamina.model.layers.attention import Attention, KeysValues, join_heads, mask_keys


@dataclass(frozen=True)
class RunningSum:
    """All that an average needs of the past, however long: the sum over rows (R, D)."""

    sum_RD: Tensor


Cache = KeysValues | RunningSum


@dataclass(frozen=True)
class Remembered:
    """A memory as one decoder layer needs it: keys and values of every stream."""

    streams: tuple[KeysValues, ...]
    valid_BS: Tensor


class TargetAttention(nn.Module, ABC):
    """One kind of attention over the target."""

    @property
    def memory_reader(self) -> Attention | None:
        """The attention that reads the memory, in kinds that take the place of cross-attention too."""
        return None

    @abstractmethod
    def forward(self, x_BTD: Tensor, memory: Remembered) -> Tensor:
        """All positions, each seeing only those before it and itself."""

    @abstractmethod
    def step(self, x_BWD: Tensor, memory: Remembered, cache: Cache, position: int) -> tuple[Tensor, Cache]:
        """One new position of every row; `position` have gone before it."""

    @abstractmethod
    def empty_cache(self, memory: Remembered) -> Cache:
        """The cache before the first position, one row per source."""


class SelfAttention(TargetAttention):
    """The Transformer's causal self-attention."""

    def __init__(self, attention: Attention) -> None:
        super().__init__()
        self.attention = attention

    def forward(self, x_BTD: Tensor, memory: Remembered) -> Tensor:
        """Fused causal attention."""
        query_BHTK, keys_BHTK, values_BHTK = self.attention.project(x_BTD, 0, 3)
        attended_BTD = self.attention.weigh(query_BHTK, KeysValues(keys_BHTK, values_BHTK), None, causal=True)
        return self.attention.out(attended_BTD)

    def step(self, x_BWD: Tensor, memory: Remembered, cache: Cache, position: int) -> tuple[Tensor, Cache]:
        """Attend from the newest position to the cache and itself."""
        query_RH1K, cache = self.extend(x_BWD, cache)
        attended_R1D = self.attention.weigh(query_RH1K, cache, None)
        return self.attention.out(attended_R1D).view_as(x_BWD), cache

    def extend(self, x_BWD: Tensor, cache: Cache) -> tuple[Tensor, KeysValues]:
        """The newest position's query, and the cache with its key and value."""
        assert isinstance(cache, KeysValues)
        query_RH1K, key_RH1K, value_RH1K = self.attention.project(x_BWD.flatten(0, 1)[:, None], 0, 3)
        return query_RH1K, KeysValues(
            torch.cat([cache.keys_BHMK, key_RH1K], dim=2), torch.cat([cache.values_BHMK, value_RH1K], dim=2)
        )

    def empty_cache(self, memory: Remembered) -> KeysValues:
        """Keys and values of no position."""
        keys_BHSK = memory.streams[0].keys_BHMK
        return KeysValues(keys_BHSK[:, :, :0], keys_BHSK[:, :, :0])


class AverageAttention(TargetAttention):
    """AAN (Zhang et al. 2018): a running mean with an input and a forget gate, in a cache of constant size.

        [i;f] = σ(Wz·[y;ȳ] + b),   h = i⊙y + f⊙ȳ

    Without the paper's feed-forward network on ȳ, as its authors advise.
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.gates = nn.Linear(2 * d_model, 2 * d_model)

    def forward(self, x_BTD: Tensor, memory: Remembered) -> Tensor:
        """The running mean at every position."""
        return self.mix(x_BTD, running_mean(x_BTD))

    def step(self, x_BWD: Tensor, memory: Remembered, cache: Cache, position: int) -> tuple[Tensor, Cache]:
        """The running mean at the newest position."""
        mean_BWD, cache = extend_mean(x_BWD, cache, position)
        return self.mix(x_BWD, mean_BWD), cache

    def mix(self, x_BTD: Tensor, mean_BTD: Tensor) -> Tensor:
        """The two gates."""
        enter_BTD, keep_BTD = self.gates(torch.cat([x_BTD, mean_BTD], dim=-1)).sigmoid().chunk(2, dim=-1)
        return enter_BTD * x_BTD + keep_BTD * mean_BTD

    def empty_cache(self, memory: Remembered) -> RunningSum:
        """A sum of nothing."""
        return empty_sum(memory)


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

    def forward(self, x_BTD: Tensor, memory: Remembered) -> Tensor:
        """Attention to the memory plus the running mean."""
        values_BTD = join_heads(self.attention.value(x_BTD))
        return self.merge(x_BTD, memory, running_mean(values_BTD))

    def step(self, x_BWD: Tensor, memory: Remembered, cache: Cache, position: int) -> tuple[Tensor, Cache]:
        """The same at the newest position."""
        mean_BWD, cache = extend_mean(join_heads(self.attention.value(x_BWD)), cache, position)
        return self.merge(x_BWD, memory, mean_BWD), cache

    def merge(self, x_BTD: Tensor, memory: Remembered, mean_BTD: Tensor) -> Tensor:
        """Add before the output projection."""
        query_BHTK = self.attention.query(x_BTD)
        attended_BTD = self.attention.weigh(query_BHTK, memory.streams[0], mask_keys(memory.valid_BS))
        return self.attention.out(attended_BTD + mean_BTD)

    def empty_cache(self, memory: Remembered) -> RunningSum:
        """A sum of nothing."""
        return empty_sum(memory)


class MixedAttention(SelfAttention):
    """Coordination (He et al. 2018): one attention over [memory ; y_≤t], source fully visible, target causal."""

    @property
    def memory_reader(self) -> Attention:
        """Its only attention."""
        return self.attention

    def forward(self, x_BTD: Tensor, memory: Remembered) -> Tensor:
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
        return self.attention.out(self.attention.weigh(query_BHTK, both, mask_B1TM))

    def step(self, x_BWD: Tensor, memory: Remembered, cache: Cache, position: int) -> tuple[Tensor, Cache]:
        """One softmax over scores against the shared memory and against each row's own past."""
        query_RH1K, cache = self.extend(x_BWD, cache)
        (stream,) = memory.streams
        batch, rows, d_model = x_BWD.shape
        query_BHWK = query_RH1K.view(batch, rows, -1, d_model // self.attention.heads).transpose(1, 2)
        scale = query_RH1K.shape[-1] ** -0.5
        source_BHWS = query_BHWK @ stream.keys_BHMK.transpose(-1, -2) * scale
        source_BHWS = source_BHWS.masked_fill(~mask_keys(memory.valid_BS), -torch.inf)
        target_RH1T = query_RH1K @ cache.keys_BHMK.transpose(-1, -2) * scale
        target_BHWT = target_RH1T.view(batch, rows, self.attention.heads, -1).transpose(1, 2)
        weights_BHWM = torch.cat([source_BHWS, target_BHWT], dim=-1).softmax(dim=-1)
        source_BHWS, target_BHWT = weights_BHWM.split([source_BHWS.shape[-1], target_BHWT.shape[-1]], dim=-1)
        from_source_BWD = join_heads(source_BHWS @ stream.values_BHMK)
        target_RH1T = target_BHWT.transpose(1, 2).reshape(target_RH1T.shape)
        from_target_BWD = join_heads(target_RH1T @ cache.values_BHMK).view_as(x_BWD)
        return self.attention.out(from_source_BWD + from_target_BWD), cache


def empty_sum(memory: Remembered) -> RunningSum:
    """The sum before the first position, one row per source, in at least 32 bits however long it grows."""
    keys_BHSK = memory.streams[0].keys_BHMK
    size = (keys_BHSK.shape[0], keys_BHSK.shape[1] * keys_BHSK.shape[3])
    return RunningSum(keys_BHSK.new_zeros(size, dtype=torch.promote_types(keys_BHSK.dtype, torch.float32)))


def running_mean(x_BTD: Tensor) -> Tensor:
    """At every position the mean of all positions up to it."""
    precise = torch.promote_types(x_BTD.dtype, torch.float32)
    counts_T = torch.arange(1, x_BTD.shape[1] + 1, device=x_BTD.device, dtype=precise)
    return (x_BTD.cumsum(dim=1, dtype=precise) / counts_T[:, None]).to(x_BTD.dtype)


def extend_mean(x_BWD: Tensor, cache: Cache, position: int) -> tuple[Tensor, RunningSum]:
    """The mean including the newest position, and the sum for the next."""
    assert isinstance(cache, RunningSum)
    sum_RD = cache.sum_RD + x_BWD.flatten(0, 1)
    return (sum_RD.view_as(x_BWD) / (position + 1)).to(x_BWD.dtype), RunningSum(sum_RD)
