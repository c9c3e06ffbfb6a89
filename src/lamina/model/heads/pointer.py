"""Pointer-generator: target tokens are generated from the vocabulary or copied from the source.

H (final states) ──► keys ─► α ──► copied mass of every source token ─┐
                              └──► c = Σ α·H ─┐                       ├─► log P
u (decoder features) ─ query ─┴───────────────┼─► p_gen ──────────────┤
e (decoder input) ────────────────────────────┘                       │
u ──► softmax(E·u) ───────────────────────────────────────────────────┘
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from lamina.errors import Problem
from lamina.model.heads.copy_entropy import CopyInputs, CopySource, add_copied, copy_cross_entropy, gather_mass
from lamina.model.heads.cross_entropy import RealTokens
from lamina.model.heads.head import Head
from lamina.model.layers.attention import additive_mask
from lamina.model.settings import HeadSettings
from lamina.model.states import DecoderStates, EncoderStates, LogProbs, Loss, Targets
from lamina.names import option

if TYPE_CHECKING:
    from lamina.model.config import ModelConfig


class PointerSettings(HeadSettings):
    """`type: pointer`."""

    type: Literal["pointer"] = "pointer"
    reads_input: bool = True  # whether the gate between generating and copying also depends on the decoder's input
    coverage: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0  # weight λ of the coverage loss

    copies: ClassVar[bool] = True

    def problems(self, model: ModelConfig) -> Iterator[Problem]:
        """Copying requires the same vocabulary on both sides."""
        if model.source_vocab != model.target_vocab:
            yield Problem(
                "head.type",
                f"head `pointer` copies tokens, so both sides need one vocabulary, but the source has "
                f"{model.source_vocab} entries and the target {model.target_vocab}. Prepare the data without "
                f"{option('separate_vocab')}.",
            )

    def build(self, model: ModelConfig, weight_VD: nn.Parameter) -> PointerHead:
        return PointerHead(self, model.d_model, weight_VD)


@dataclass(frozen=True)
class PointerMemory:
    """Keys and states of a source, its tokens, and the first position of each."""

    keys_BSD: Tensor
    states_BSD: Tensor
    tokens_BS: Tensor
    slots_BS: Tensor  # first position of the same token
    mask_BS: Tensor  # additive padding mask


@dataclass(frozen=True)
class Mixture:
    """Attention and gate of the copy distribution."""

    copied_BTS: Tensor  # α
    gate_BT: Tensor  # logit of p_gen


class PointerHead(Head):
    """Pointer-generator (See et al. 2017, Eq. 8-9, 13) with separate attention, as a head for any Transformer.

    P(w) = p_gen·softmax(E·u)_w + (1-p_gen)·Σ_{i: x_i = w} α_i,   p_gen = σ(w·[u; c; e] + b).

    Coverage is only a loss: as an input of the attention (Eq. 11) it would make training sequential.
    """

    def __init__(self, settings: PointerSettings, d_model: int, weight_VD: nn.Parameter) -> None:
        super().__init__()
        self.weight_VD = weight_VD
        self.reads_input, self.coverage = settings.reads_input, settings.coverage
        self.query = nn.Linear(d_model, d_model)
        self.key = nn.Linear(d_model, d_model, bias=False)  # a bias would shift all scores of a query equally
        self.gate = nn.Linear((3 if self.reads_input else 2) * d_model, 1)

    def project_source(self, enc: EncoderStates) -> PointerMemory:
        tokens_BS = enc.source_BS
        positions_BS = torch.arange(tokens_BS.shape[1], device=tokens_BS.device).expand_as(tokens_BS)
        first_BV = tokens_BS.new_full((tokens_BS.shape[0], len(self.weight_VD)), torch.iinfo(torch.int64).max)
        first_BV = first_BV.scatter_reduce(1, tokens_BS, positions_BS, "amin")
        mask_BS = additive_mask(enc.valid_BS, torch.promote_types(enc.top_BSD.dtype, torch.float32))
        return PointerMemory(self.key(enc.top_BSD), enc.top_BSD, tokens_BS, first_BV.gather(1, tokens_BS), mask_BS)

    def mixture(self, states: DecoderStates, memory: PointerMemory) -> Mixture:
        """α and p_gen, in at least 32 bits."""
        u_BTD = states.features_BTD
        scores_BTS = self.query(u_BTD) @ memory.keys_BSD.transpose(1, 2) * u_BTD.shape[-1] ** -0.5
        copied_BTS = (scores_BTS + memory.mask_BS[:, None]).softmax(dim=-1)
        context_BTD = copied_BTS.to(memory.states_BSD.dtype) @ memory.states_BSD
        inputs = (u_BTD, context_BTD, states.input_BTD) if self.reads_input else (u_BTD, context_BTD)
        return Mixture(copied_BTS, self.gate(torch.cat(inputs, dim=-1))[..., 0].to(copied_BTS.dtype))

    def forward(self, states: DecoderStates, memory: PointerMemory) -> LogProbs:
        """One vocabulary product: log q = logits − (log Z − log p_gen), plus the copy mass at source tokens."""
        mixture, plain = self.mixture(states, memory), self.softmax(states.features_BTD)
        copy_gate_BT1 = torch.sigmoid(-mixture.gate_BT)[..., None]
        normaliser_BT1 = plain.normaliser_BT1 - nn.functional.logsigmoid(mixture.gate_BT)[..., None]
        tokens_BTS = memory.tokens_BS[:, None].expand_as(mixture.copied_BTS)
        slots_BTS = memory.slots_BS[:, None].expand_as(mixture.copied_BTS)
        mass_BTS = gather_mass(mixture.copied_BTS, slots_BTS) * copy_gate_BT1  # at first positions
        scores_BTV = plain.scores_BTV.to(normaliser_BT1.dtype)
        log_q_BTS = scores_BTV.gather(2, tokens_BTS) - normaliser_BT1
        gained_BTS = add_copied(log_q_BTS, mass_BTS.to(log_q_BTS.dtype)) - log_q_BTS
        return LogProbs(scores_BTV.scatter_add(2, tokens_BTS, gained_BTS), normaliser_BT1)

    def loss(self, states: DecoderStates, memory: PointerMemory, targets: Targets) -> Loss:
        """Cross-entropy, plus the coverage loss in training."""
        mixture, real = self.mixture(states, memory), RealTokens.of(targets)
        positions_S = torch.arange(memory.slots_BS.shape[1], device=targets.ids_BT.device)
        source = (memory.tokens_BS, memory.slots_BS, memory.slots_BS == positions_S)
        source_NS = (real.take(part_BS[:, None].expand_as(mixture.copied_BTS)) for part_BS in source)
        inputs = CopyInputs(
            real.take(states.features_BTD),
            real.take(mixture.gate_BT),
            real.take(mixture.copied_BTS),
            CopySource(*source_NS),
        )
        total, nll_N = copy_cross_entropy(
            inputs, self.weight_VD, real.take(targets.ids_BT), targets.smoothing, real.importance_N
        )
        if self.training and self.coverage > 0:
            total = total + self.coverage * coverage_loss(mixture.copied_BTS, real.real_BT)
        return Loss(total, real.spread(nll_N), real.count)


def coverage_loss(copied_BTS: Tensor, real_BT: Tensor) -> Tensor:
    """Σ_t Σ_i min(α_ti, Σ_{t'<t} α_t'i) over real target tokens (Eq. 12)."""
    covered_BTS = copied_BTS.cumsum(dim=1) - copied_BTS
    return (torch.minimum(copied_BTS, covered_BTS) * real_BT[..., None]).sum()
