"""SurfaceFusion: source embeddings are attended to once more and fused with the decoder in the softmax.

s (surface) ─────────────► MHA_sf ──► r ──► g ──► b = E·r ─┐
H (final states) ─ stop ──► keys ▲                         ├─► log p
z (a decoder layer) ─ stop ─ query                         │
u (decoder features) ─────────────────► g ──► a = E·u ─────┘
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import torch
from pydantic import BeforeValidator, Field, PositiveInt
from pydantic_core import PydanticCustomError
from torch import Tensor, nn
from torch.nn import functional as F

from lamina.errors import Problem
from lamina.model.heads.cross_entropy import RealTokens, smoothed_cross_entropy
from lamina.model.heads.head import Head
from lamina.model.heads.surface_readers import AttentionReader, PooledReader, SurfaceMemory
from lamina.model.layers.dropout import Dropout
from lamina.model.layers.feedforward import build_feed_forward
from lamina.model.settings import HeadSettings
from lamina.model.states import DecoderStates, EncoderStates, LogProbs, Loss, Targets

if TYPE_CHECKING:
    from lamina.model.config import ModelConfig


Share = Annotated[float, Field(ge=0, le=1)]


def share_or_learned(gate: Any) -> Any:
    """Validate a gate: a number from 0 to 1, or `learned`."""
    if gate == "learned":
        return gate
    if isinstance(gate, int | float) and not isinstance(gate, bool) and 0 <= gate <= 1:
        return float(gate)
    raise PydanticCustomError(
        "choice", "must be a number from 0 to 1, or `learned`, but is {gate} instead.", {"gate": repr(gate)}
    )


class SurfaceSettings(HeadSettings):
    """`type: surface`. The defaults are those of the published command."""

    type: Literal["surface"] = "surface"
    mode: Literal["hard", "soft", "postnorm"] = "hard"  # how the two sides are combined; `postnorm` equals `soft`
    gate: Annotated[Share | Literal["learned"], BeforeValidator(share_or_learned)] = 0.8  # λ, for `hard`
    tau: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0  # scale of the source's logits, for `soft`
    renormalise: bool = False  # make the probabilities sum to 1, for `hard`
    ffn: bool = True  # apply a feed-forward network, shared by both sides
    linear: bool = False  # apply a matrix to each side
    reader: Literal["attention", "mean", "max"] = "attention"  # how the surface states are read
    reader_heads: PositiveInt = 1  # attention heads of the reader `attention`
    layer: PositiveInt | None = None  # decoder layer that provides the query, from 1; None is the top
    pool_from_id: PositiveInt | None = None  # imported models only: pooling ignores smaller ids

    def problems(self, model: ModelConfig) -> Iterator[Problem]:
        """Options must act: one that the mode or the reader ignores is an error."""
        ignored = ("tau",) if self.mode == "hard" else ("gate", "renormalise")
        other = "soft" if self.mode == "hard" else "hard"
        yield from self._check_unset(ignored, f"applies only to mode `{other}`, but mode is `{self.mode}`.")
        if self.reader == "attention":
            yield from self._check_unset(
                ("pool_from_id",), "applies only to readers `mean` and `max`, but reader is `attention`."
            )
            if model.d_model % self.reader_heads:
                yield Problem(
                    "head.reader_heads", f"must divide d_model {model.d_model}, but is {self.reader_heads} instead."
                )
        else:
            yield from self._check_unset(
                ("reader_heads", "layer"), f"applies only to reader `attention`, but reader is `{self.reader}`."
            )
        if self.layer is not None and self.layer > model.decoder.layers:
            yield Problem(
                "head.layer",
                f"must be from 1 to {model.decoder.layers}, the number of decoder layers, but is {self.layer} instead.",
            )

    def _check_unset(self, names: tuple[str, ...], reason: str) -> Iterator[Problem]:
        for name in names:
            if getattr(self, name) != type(self).model_fields[name].default:
                yield Problem(f"head.{name}", reason)

    def build(self, model: ModelConfig, weight_VD: nn.Parameter) -> SurfaceHead:
        return SurfaceHead(self, model, weight_VD)


@dataclass(frozen=True)
class Sides:
    """The features of both sides before the softmax matrix, and the gate between them."""

    target_BTD: Tensor
    source_BTD: Tensor
    gate: float | Tensor  # λ, constant or (B, T, 1)


class LearnedGate(nn.Module):
    """λ = σ(w·[u ; r]) at every position."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(1, 2 * d_model) * d_model**-0.5)

    def forward(self, target_BTD: Tensor, source_BTD: Tensor) -> Tensor:
        """(B, T, D) twice → (B, T, 1)."""
        return F.linear(torch.cat([target_BTD, source_BTD], dim=-1), self.weight).sigmoid()


class SurfaceHead(Head):
    """SurfaceFusion (Liu et al. 2021, Eq. 5-8).

    `hard`:  λ·logsoftmax(a) + (1-λ)·logsoftmax(b), as published with a total mass of at most 1; renormalised it is
    logsoftmax(E·(λu+(1-λ)r)). `soft`: logsoftmax(a + logsoftmax(τ·b)) = logsoftmax(E·(u+τr)).
    """

    def __init__(self, settings: SurfaceSettings, model: ModelConfig, weight_VD: nn.Parameter) -> None:
        super().__init__()
        self.weight_VD = weight_VD
        self.two_softmaxes = settings.mode == "hard" and not settings.renormalise
        self.normalised = not self.two_softmaxes
        self.soft = settings.mode != "hard"
        self.tau = settings.tau
        self.layer = (settings.layer or model.decoder.layers) - 1
        if settings.reader == "attention":
            self.reader: AttentionReader | PooledReader = AttentionReader(
                model.d_model, settings.reader_heads, model.attention_dropout
            )
        else:
            self.reader = PooledReader(settings.reader, settings.pool_from_id)
        self.feed_forward = build_feed_forward(model) if settings.ffn else None
        self.dropout = Dropout(model.dropout)
        if settings.linear:
            self.target_linear: nn.Module = nn.Linear(model.d_model, model.d_model, bias=False)
            self.source_linear: nn.Module = nn.Linear(model.d_model, model.d_model, bias=False)
        else:
            self.target_linear = self.source_linear = nn.Identity()
        self.constant_gate = None if settings.gate == "learned" else settings.gate
        if settings.gate == "learned":
            self.gate = LearnedGate(model.d_model)

    def project_source(self, enc: EncoderStates) -> SurfaceMemory:
        """Keys and values of the surface reader, or its pooled states."""
        return self.reader.project_source(enc)

    def sides(self, states: DecoderStates, memory: SurfaceMemory) -> Sides:
        """u, r and λ."""
        target_BTD = states.features_BTD
        source_BTD = self.reader(states.layers[self.layer], memory)
        if self.feed_forward is not None:
            target_BTD = target_BTD + self.dropout(self.feed_forward(target_BTD))
            source_BTD = source_BTD + self.dropout(self.feed_forward(source_BTD))
        target_BTD, source_BTD = self.target_linear(target_BTD), self.source_linear(source_BTD)
        if self.constant_gate is not None:
            return Sides(target_BTD, source_BTD, self.constant_gate)
        return Sides(target_BTD, source_BTD, self.gate(target_BTD, source_BTD))

    def mixed(self, sides: Sides) -> Tensor:
        """The features of a single softmax over both sides: u+τr, or λu+(1-λ)r."""
        if self.soft:
            return sides.target_BTD + self.tau * sides.source_BTD
        return sides.gate * sides.target_BTD + (1 - sides.gate) * sides.source_BTD

    def forward(self, states: DecoderStates, memory: SurfaceMemory) -> LogProbs:
        """Two vocabulary products in `hard` mode without renormalisation, otherwise one."""
        sides = self.sides(states, memory)
        if not self.two_softmaxes:
            return self.softmax(self.mixed(sides))
        target = self.softmax(sides.target_BTD)
        source = self.softmax(sides.source_BTD)
        return LogProbs(
            sides.gate * target.scores_BTV + (1 - sides.gate) * source.scores_BTV,
            sides.gate * target.normaliser_BT1 + (1 - sides.gate) * source.normaliser_BT1,
        )

    def loss(self, states: DecoderStates, memory: SurfaceMemory, targets: Targets) -> Loss:
        """λ·LS(a) + (1-λ)·LS(b) in `hard` mode without renormalisation: the mixture is never materialised."""
        sides = self.sides(states, memory)
        if not self.two_softmaxes:
            return self._mixed_loss(sides, targets)
        real = RealTokens.of(targets)
        target_N = real.take(targets.ids_BT)
        if isinstance(sides.gate, Tensor):
            gate_N = real.take(sides.gate)[:, 0]
        else:
            gate_N = torch.full(target_N.shape, sides.gate, device=target_N.device)
        gate_2N = torch.cat([gate_N, 1 - gate_N])
        importance_N = real.importance_N
        total, nll_2N = smoothed_cross_entropy(
            torch.cat([real.take(sides.target_BTD), real.take(sides.source_BTD)]),
            self.weight_VD,
            target_N.repeat(2),
            targets.smoothing,
            gate_2N if importance_N is None else gate_2N * importance_N.repeat(2),
        )
        nll_N = (gate_2N * nll_2N).detach().view(2, -1).sum(dim=0)
        return Loss(total, real.spread(nll_N), real.count)

    def normalised_nll(self, states: DecoderStates, memory: SurfaceMemory, targets: Targets) -> Tensor:
        """−log p under the renormalised distribution, which has a single softmax."""
        return self._mixed_loss(self.sides(states, memory), targets).nll_BT

    def _mixed_loss(self, sides: Sides, targets: Targets) -> Loss:
        real = RealTokens.of(targets)
        features_ND, target_N = real.take(self.mixed(sides)), real.take(targets.ids_BT)
        total, nll_N = smoothed_cross_entropy(
            features_ND, self.weight_VD, target_N, targets.smoothing, real.importance_N
        )
        return Loss(total, real.spread(nll_N), real.count)
