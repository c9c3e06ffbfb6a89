"""Multi-head attention with packed projections, on torch's fused kernel."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lamina.model.layers.dropout import keep_mask

SHORT = 128  # keys, or eight for each query


@dataclass(frozen=True)
class KeysValues:
    """Projected keys and values of one sequence."""

    keys_BHMK: Tensor
    values_BHMK: Tensor


class PackedLinear(nn.Linear):
    """Projections of one width in one matrix, of which some or all are computed at once."""

    def __init__(self, d_model: int, parts: int) -> None:
        super().__init__(d_model, parts * d_model)

    def project(self, x_BTD: Tensor, first: int, last: int) -> Tensor:
        """Parts `first` up to `last`, side by side."""
        d_model = self.in_features
        if not torch.is_grad_enabled():
            bias = self.bias[first * d_model : last * d_model]
        else:
            # the bias of keys shifts all scores of a query alike: its gradient is 0, and rounding must not train it
            query, key, value = self.bias.chunk(3)
            bias = torch.cat((query, key.detach(), value)[first:last])
        return F.linear(x_BTD, self.weight[first * d_model : last * d_model], bias)


class Attention(nn.Module):
    """softmax(QKᵀ/√K)V over contiguous slices of D, with Wq, Wk, Wv packed into one matrix.

    Self-attention projects all three at once. Cross-attention projects keys and values of a memory once
    per source (`project_kv`) and queries at every step (`read`).
    """

    def __init__(self, d_model: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.qkv = PackedLinear(d_model, 3)
        self.out = nn.Linear(d_model, d_model)
        self.recorded_weights: list[Tensor] | None = None  # the weights of every call, while they are recorded

    def project(self, x_BTD: Tensor, first: int, last: int) -> Tensor:
        """Projections `first` up to `last` of (query, key, value), each (B, H, T, K), in one tensor."""
        packed = self.qkv.project(x_BTD, first, last)
        batch, length, d_model = x_BTD.shape
        split = packed.view(batch, length, last - first, self.heads, d_model // self.heads)
        return split.permute(2, 0, 3, 1, 4)

    def query(self, x_BTD: Tensor) -> Tensor:
        """(B, T, D) → (B, H, T, K)."""
        return self.project(x_BTD, 0, 1)[0]

    def value(self, x_BTD: Tensor) -> Tensor:
        """(B, T, D) → (B, H, T, K)."""
        return self.project(x_BTD, 2, 3)[0]

    def project_kv(self, memory_BMD: Tensor) -> KeysValues:
        """Keys and values of a memory, contiguous for repeated reading."""
        keys_BHMK, values_BHMK = self.project(memory_BMD, 1, 3).contiguous()
        return KeysValues(keys_BHMK, values_BHMK)

    def attend(self, query_BHTK: Tensor, memory: KeysValues, mask: Tensor | None, causal: bool = False) -> Tensor:
        """Attend, and lay the heads side by side again: (B, T, D) before the output projection."""
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
        """The attention weights themselves, (B, H, T, M): the explicit path, taken only on request."""
        scores_BHTM = query_BHTK @ keys_BHMK.transpose(-1, -2) * query_BHTK.shape[-1] ** -0.5
        if mask is not None:
            scores_BHTM = scores_BHTM + additive_mask(mask, scores_BHTM.dtype)
        return scores_BHTM.softmax(dim=-1)

    def read(self, x_BTD: Tensor, memory: KeysValues, mask: Tensor | None) -> Tensor:
        """Attend from x to a projected memory."""
        return self.out(self.attend(self.query(x_BTD), memory, mask))

    def forward(self, x_BTD: Tensor, valid_BT: Tensor) -> Tensor:
        """Attend from x to itself."""
        query_BHTK, keys_BHTK, values_BHTK = self.project(x_BTD, 0, 3)
        attended_BTD = self.attend(query_BHTK, KeysValues(keys_BHTK, values_BHTK), mask_keys(valid_BT))
        return self.out(attended_BTD)


def attend_short(
    query_BHTK: Tensor, keys_BHMK: Tensor, values_BHMK: Tensor, mask: Tensor | None, causal: bool, dropout: float
) -> Tensor:
    """What torch's fused kernel computes, by plain products: on a CPU they are faster for short sequences."""
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
    """A bias of (B, 1 or H, 1 or T, M) or (T, M) as (B·H or 1, 1 or T, M)."""
    return bias[None] if bias.dim() == 2 else bias.expand(batch, heads, -1, -1).flatten(0, 1)


def additive_mask(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """A mask to add to scores: 0 where True, the lowest value where False; a float mask is returned unchanged."""
    if mask.dtype != torch.bool:
        return mask
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(~mask, torch.finfo(dtype).min)


def join_heads(x_BHTK: Tensor) -> Tensor:
    """(B, H, T, K) → (B, T, H·K)."""
    return x_BHTK.transpose(1, 2).flatten(2)


def mask_memory(valid_BM: Tensor, keys_BHMK: Tensor) -> Tensor | None:
    """`mask_keys` for a memory that is read many times: None without padding, else an additive mask."""
    if valid_BM.device.type != "cpu":
        return mask_keys(valid_BM)
    if bool(valid_BM.all()):
        return None
    return additive_mask(mask_keys(valid_BM), keys_BHMK.dtype).repeat(1, keys_BHMK.shape[1], 1, 1)


def mask_keys(valid_BM: Tensor) -> Tensor:
    """Real tokens as a mask that broadcasts over heads and queries: (B, 1, 1, M)."""
    return valid_BM[:, None, None, :]
