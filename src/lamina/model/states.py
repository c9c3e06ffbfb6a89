"""The types that encoders, bridges, the decoder and heads exchange."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import TypeVar, cast

from torch import Tensor


@dataclass(frozen=True)
class EncoderStates:
    """Everything an encoder provides for a batch of sources.

    The embedding sets the first six fields; the encoder adds the others and replaces `top_BSD`.
    """

    source_BS: Tensor  # token ids
    valid_BS: Tensor  # True = real token
    mask_B11S: Tensor  # the same as an additive mask for attention scores
    surface_BSD: Tensor  # scaled embeddings without positions, under the dropout mask of `embedded_BSD`
    embedded_BSD: Tensor  # the encoder's input
    top_BSD: Tensor  # the encoder's final states
    layers: tuple[Tensor, ...] = ()  # every layer's raw output (B, S, D), before any final norm
    contexts: tuple[Tensor, ...] = ()  # C^1..C^N (B, S, D), from `msc` only
    bottoms: tuple[Tensor, ...] = ()  # H1 and H1 + LN_e(x) (B, S, D), from `grown` only


@dataclass(frozen=True)
class Memory:
    """What one decoder layer attends to: one stream or two, each (B, S, D)."""

    streams: tuple[Tensor, ...]
    valid_BS: Tensor


@dataclass(frozen=True)
class DecoderStates:
    """The decoder's states as a head reads them."""

    layers: tuple[Tensor, ...]  # every layer's raw output (B, T, D)
    features_BTD: Tensor  # after the final norm, if there is one
    input_BTD: Tensor  # the embedded target that the first layer reads


@dataclass(frozen=True)
class LogProbs:
    """log p = scores − normaliser; top-k needs only the scores."""

    scores_BTV: Tensor
    normaliser_BT1: Tensor

    def full(self) -> Tensor:
        """The log-probabilities, (B, T, V)."""
        return self.scores_BTV - self.normaliser_BT1


@dataclass(frozen=True)
class Targets:
    """The target tokens of a loss, and their weights."""

    ids_BT: Tensor  # padded with `pad_id`
    pad_id: int
    smoothing: float = 0.0  # ε, spread over the vocabulary
    importance_BT: Tensor | None = None  # weight of each token in the total; None: 1


@dataclass(frozen=True, repr=False)
class Loss:
    """Label-smoothed loss of a batch, and the plain −log p of each of its target tokens."""

    total: Tensor  # summed over real target tokens, differentiable
    nll_BT: Tensor  # without smoothing, detached, 0 at padding
    tokens: int | Tensor  # real target tokens; on a GPU a tensor on the device, to avoid a wait

    def mean(self) -> Tensor:
        """The loss per target token."""
        return self.total / (self.tokens.clamp(min=1) if isinstance(self.tokens, Tensor) else max(1, self.tokens))

    def __repr__(self) -> str:
        mean, total = self.mean().item(), self.total.item()
        return f"Loss(mean={mean:.4f}, total={total:.4f}, tokens={int(self.tokens)})"


Tree = TypeVar("Tree")


def map_tensors(function: Callable[[Tensor], Tensor], tree: Tree) -> Tree:
    """Apply `function` to every tensor in nested dataclasses and tuples; anything else stays as it is."""
    if isinstance(tree, Tensor):
        return cast("Tree", function(tree))
    if isinstance(tree, tuple):
        return cast("Tree", tuple(map_tensors(function, branch) for branch in tree))
    if hasattr(tree, "__dataclass_fields__"):
        branches = {f.name: map_tensors(function, getattr(tree, f.name)) for f in fields(tree)}  # type: ignore[arg-type]
        return replace(tree, **branches)  # type: ignore[type-var]
    return tree
