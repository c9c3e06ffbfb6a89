"""Multi-head attention with packed projections, on torch's fused kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from lamina.model.layers.dropout import keep_mask

SHORT = 128  # keys, or 8 × queries, up to which plain products are faster on a CPU


@dataclass(frozen=True)
class KeysValues:
    """Projected keys and values of one sequence."""

    keys_BHMK: Tensor
    values_BHMK: Tensor


class PackedLinear(nn.Linear):
    """The projections of query, key and value packed into one matrix, computed together or separately."""

    def __init__(self, d_model: int, pieces: tuple[int, ...]) -> None:
        super().__init__(d_model, 3 * d_model)
        self.pieces = pieces  # numbers of projections that are computed together: (3,), or (1, 2)
        self.replaced: list[tuple[int, Tensor, Tensor]] = []  # 16-bit copies of the pieces, set by training

    def project(self, x_BTD: Tensor, first: int, last: int) -> Tensor:
        """Projections `first` up to `last`, concatenated."""
        return F.linear(x_BTD, *self.part(first, last))

    def part(self, first: int, last: int) -> tuple[Tensor, Tensor]:
        """Weight and bias of projections `first` up to `last`."""
        bias: Tensor = self.bias
        if torch.is_grad_enabled() and not self.replaced:
            bias = _FixedKeyBias.apply(bias)  # type: ignore[no-untyped-call]
        pieces = self.replaced or [(0, self.weight, bias)]
        start, weight, bias = next(piece for piece in reversed(pieces) if piece[0] <= first)
        if (last - first) * self.in_features == len(weight):
            return weight, bias
        rows = slice((first - start) * self.in_features, (last - start) * self.in_features)
        return weight[rows], bias[rows]


class _FixedKeyBias(torch.autograd.Function):
    """Sets the gradient of the key's bias to 0, which it is exactly: this bias shifts all scores of a query equally.

    Rounding errors would make it a small number, which Adam would scale up to a full step.
    """

    @staticmethod
    def forward(ctx: Any, bias: Tensor) -> Tensor:
        return bias.view_as(bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        query, key, value = grad.chunk(3)
        return torch.cat([query, torch.zeros_like(key), value])


class Attention(nn.Module):
    """softmax(QKᵀ/√K)V over contiguous slices of D, with Wq, Wk, Wv packed into one matrix.

    Self-attention projects all three at once. Cross-attention (`cross`) projects keys and values of a memory once
    per source (`project_kv`) and queries at every step (`read`).
    """

    def __init__(self, d_model: int, heads: int, dropout: float, *, cross: bool = False) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.qkv = PackedLinear(d_model, (1, 2) if cross else (3,))
        self.out = nn.Linear(d_model, d_model)
        self.recorded_weights: list[Tensor] | None = None  # weights of every call; None: not recorded

    def project(self, x_BTD: Tensor, first: int, last: int) -> tuple[Tensor, ...]:
        """Projections `first` up to `last` of (query, key, value), each (B, H, T, K)."""
        return self.split_heads(self.qkv.project(x_BTD, first, last), last - first)

    def split_heads(self, packed: Tensor, parts: int) -> tuple[Tensor, ...]:
        """Split concatenated projections (B, T, parts·D) into one (B, H, T, K) each."""
        batch, length, width = packed.shape
        projections = packed.chunk(parts, dim=-1) if parts > 1 else (packed,)
        size = width // (parts * self.heads)
        return tuple(part.view(batch, length, self.heads, size).transpose(1, 2) for part in projections)

    def query(self, x_BTD: Tensor) -> Tensor:
        """(B, T, D) → (B, H, T, K)."""
        return self.project(x_BTD, 0, 1)[0]

    def value(self, x_BTD: Tensor) -> Tensor:
        """(B, T, D) → (B, H, T, K)."""
        return self.project(x_BTD, 2, 3)[0]

    def project_kv(self, memory_BMD: Tensor) -> KeysValues:
        """Project a memory to keys and values, on a CPU contiguous for repeated reading."""
        keys_BHMK, values_BHMK = self.project(memory_BMD, 1, 3)
        if memory_BMD.device.type == "cpu":
            keys_BHMK, values_BHMK = keys_BHMK.contiguous(), values_BHMK.contiguous()
        return KeysValues(keys_BHMK, values_BHMK)

    def attend(self, query_BHTK: Tensor, memory: KeysValues, mask: Tensor | None, causal: bool = False) -> Tensor:
        """Attend and concatenate the heads: (B, T, D) before the output projection."""
        if self.recorded_weights is not None:
            self.recorded_weights.append(self.weights(query_BHTK, memory.keys_BHMK, mask))
        dropout = self.dropout if self.training else 0.0
        keys_BHMK, values_BHMK = memory.keys_BHMK, memory.values_BHMK
        if query_BHTK.device.type == "cpu" and min(query_BHTK.shape[2] * 8, keys_BHMK.shape[2]) <= SHORT:
            attended_BHTK = attend_short(query_BHTK, keys_BHMK, values_BHMK, mask, causal, dropout)
        else:
            attended_BHTK = F.scaled_dot_product_attention(
                query_BHTK, keys_BHMK, values_BHMK, attn_mask=mask, dropout_p=dropout, is_causal=causal
            )
        return join_heads(attended_BHTK)

    def weights(self, query_BHTK: Tensor, keys_BHMK: Tensor, mask: Tensor | None = None) -> Tensor:
        """The attention weights, (B, H, T, M), which the fused kernel does not return."""
        scores_BHTM = query_BHTK @ keys_BHMK.transpose(-1, -2) * query_BHTK.shape[-1] ** -0.5
        if mask is not None:
            scores_BHTM = scores_BHTM + additive_mask(mask, scores_BHTM.dtype)
        return scores_BHTM.softmax(dim=-1)

    def read(self, x_BTD: Tensor, memory: KeysValues, mask: Tensor | None) -> Tensor:
        """Attend from x to a projected memory."""
        return self.out(self.attend(self.query(x_BTD), memory, mask))

    def forward(self, x_BTD: Tensor, mask: Tensor) -> Tensor:
        """Attend from x to itself."""
        query_BHTK, keys_BHTK, values_BHTK = self.project(x_BTD, 0, 3)
        attended_BTD = self.attend(query_BHTK, KeysValues(keys_BHTK, values_BHTK), mask)
        return self.out(attended_BTD)


def project_together(readers: Sequence[Attention], memory_BMD: Tensor) -> list[KeysValues]:
    """Project one memory to keys and values for several readers in one matrix product."""
    parts = [reader.qkv.part(1, 3) for reader in readers]
    packed = F.linear(memory_BMD, torch.cat([weight for weight, _ in parts]), torch.cat([bias for _, bias in parts]))
    heads = readers[0].split_heads(packed, 2 * len(readers))
    return [KeysValues(*pair) for pair in zip(heads[::2], heads[1::2], strict=True)]


def attend_short(
    query_BHTK: Tensor, keys_BHMK: Tensor, values_BHMK: Tensor, mask: Tensor | None, causal: bool, dropout: float
) -> Tensor:
    """Attention by plain matrix products, which on a CPU are faster than the fused kernel for short sequences."""
    batch, heads, length, width = query_BHTK.shape
    keys = keys_BHMK.shape[2]
    if causal:
        mask = torch.ones(length, keys, dtype=torch.bool).tril()
    query_ATK = query_BHTK.reshape(batch * heads, length, width)
    keys_AKM = keys_BHMK.reshape(batch * heads, keys, width).transpose(1, 2)
    if mask is None:
        scores_ATM = torch.bmm(query_ATK * width**-0.5, keys_AKM)
    else:
        bias_ATM = by_head(additive_mask(mask, query_BHTK.dtype), batch, heads)
        scores_ATM = torch.baddbmm(bias_ATM, query_ATK, keys_AKM, alpha=width**-0.5)
    weights_ATM = scores_ATM.softmax(dim=-1)
    if dropout > 0:
        weights_ATM = weights_ATM * keep_mask(weights_ATM, dropout)
    attended_ATK = torch.bmm(weights_ATM, values_BHMK.reshape(batch * heads, keys, width))
    return attended_ATK.view(batch, heads, length, width)


def by_head(bias: Tensor, batch: int, heads: int) -> Tensor:
    """Reshape a bias of (B, 1 or H, 1 or T, M) or (T, M) to (B·H or 1, 1 or T, M)."""
    return bias[None] if bias.dim() == 2 else bias.expand(batch, heads, -1, -1).flatten(0, 1)


def additive_mask(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Convert a mask to one that is added to scores: 0 where True, else the lowest value; float masks pass through."""
    if mask.dtype != torch.bool:
        return mask
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(~mask, torch.finfo(dtype).min)


def join_heads(x_BHTK: Tensor) -> Tensor:
    """(B, H, T, K) → (B, T, H·K)."""
    return x_BHTK.transpose(1, 2).flatten(2)


def mask_memory(valid_BM: Tensor, keys_BHMK: Tensor) -> Tensor | None:
    """`mask_padding` for a memory that is read many times; on a CPU None if there is no padding."""
    mask = additive_mask(mask_keys(valid_BM), keys_BHMK.dtype)
    if valid_BM.device.type != "cpu" or torch.compiler.is_compiling():
        return mask
    return None if bool(valid_BM.all()) else mask.repeat(1, keys_BHMK.shape[1], 1, 1)


def mask_padding(valid_BM: Tensor, like: Tensor) -> Tensor:
    """The padding mask as an additive mask, (B, 1, 1, M), in the dtype of attention scores."""
    return additive_mask(mask_keys(valid_BM), product_type(like))


def product_type(like: Tensor) -> torch.dtype:
    """The dtype of matrix products: autocast's, or the tensor's."""
    device = like.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else like.dtype


def mask_keys(valid_BM: Tensor) -> Tensor:
    """Broadcast the padding mask over heads and queries: (B, 1, 1, M)."""
    return valid_BM[:, None, None, :]
