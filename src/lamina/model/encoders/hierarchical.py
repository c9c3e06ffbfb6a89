"""The hierarchical encoder: sentence layers, then document layers over sentences, added back to the tokens.

tokens ──► sentence layers ──┬──────────────────────────────────────────────(+)──► token states
           (own sentence)    └─ last token ─► document layers ─► W ─► spread ─┘
                                of each        (all sentences)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import torch
from pydantic import PositiveInt
from torch import Tensor, nn

from lamina.errors import Problem
from lamina.model.encoders.stack import EncoderLayer
from lamina.model.layers.attention import additive_mask, mask_padding, product_type
from lamina.model.layers.modules import Modules
from lamina.model.layers.positions import Positions
from lamina.model.layers.residuals import norm_if_pre
from lamina.model.settings import EncoderSettings
from lamina.model.states import EncoderStates
from lamina.text.vocabulary import BOS

if TYPE_CHECKING:
    from lamina.model.config import ModelConfig


class HierarchicalSettings(EncoderSettings):
    """`type: hierarchical`."""

    type: Literal["hierarchical"] = "hierarchical"
    layers: PositiveInt
    document_layers: PositiveInt | None = None  # number of document-level layers; None is half of all

    def split(self) -> tuple[int, int]:
        """Numbers of sentence-level and document-level layers."""
        document = self.layers // 2 if self.document_layers is None else self.document_layers
        return self.layers - document, document

    def problems(self, model: ModelConfig) -> Iterator[Problem]:
        """Each level needs at least one layer."""
        sentence, document = self.split()
        if min(sentence, document) < 1:
            yield Problem(
                "encoder.layers",
                f"encoder `hierarchical` needs at least one layer for sentences and one for the document, but has "
                f"{max(sentence, 0)} for sentences and {document} for the document.",
            )

    def build(self, model: ModelConfig) -> HierarchicalEncoder:
        return HierarchicalEncoder(self, model)


@dataclass(frozen=True)
class Sentences:
    """The sentences of a batch of documents, at most K in each."""

    number_BS: Tensor  # index of the sentence of every token
    seen_BSS: Tensor  # attention mask: a token sees its own sentence
    last_BK: Tensor  # position of every sentence's last token
    valid_BK: Tensor


def find_sentences(source_BS: Tensor, valid_BS: Tensor) -> Sentences:
    """Find sentences, each of which ends with `<s>` or the end of the document."""
    boundary_BS = (source_BS == BOS) & valid_BS
    number_BS = boundary_BS.long().cumsum(dim=1) - boundary_BS.long()
    seen_BSS = (number_BS[:, :, None] == number_BS[:, None, :]) & valid_BS[:, None, :]
    positions_S = torch.arange(source_BS.shape[1], device=source_BS.device)
    seen_BSS = seen_BSS | (positions_S[:, None] == positions_S)  # padding sees itself
    positions_BS = positions_S.expand_as(source_BS).masked_fill(~valid_BS, -1)
    last_BK = positions_BS.new_full((source_BS.shape[0], most_sentences(number_BS)), -1).scatter_reduce(
        1, number_BS, positions_BS, "amax"
    )
    return Sentences(number_BS, seen_BSS, last_BK.clamp(min=0), last_BK >= 0)


def most_sentences(number_BS: Tensor) -> int:
    """K; if counting would synchronise or be traced as a constant, its upper bound of one sentence per token."""
    tracing: bool = torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]
    if number_BS.device.type != "cpu" or torch.compiler.is_compiling() or tracing:
        return max(1, number_BS.shape[1])
    return int(number_BS.max()) + 1 if number_BS.numel() else 1


class SentenceLayer(EncoderLayer):
    """An encoder layer whose mask restricts attention to a token's own sentence."""


class HierarchicalEncoder(nn.Module):
    """HierTrans (Wei et al. 2020, Appendix A): a sentence-level and a document-level encoder.

    The paper gives no details. Our choices: a sentence's vector is the state of its last token, sentences have
    position embeddings, and a token's state is x + W·(the document state of its sentence), one W for all layers.
    """

    def __init__(self, settings: HierarchicalSettings, model: ModelConfig) -> None:
        super().__init__()
        self.sentence_layers, document = settings.split()
        self.layers: Modules[EncoderLayer] = Modules(
            [
                *(SentenceLayer(model) for _ in range(self.sentence_layers)),
                *(EncoderLayer(model) for _ in range(document)),
            ]
        )
        self.positions = Positions(model.d_model, 0)
        self.spread = nn.Linear(model.d_model, model.d_model, bias=False)
        self.final_norm = norm_if_pre(model.d_model, model.norm, affine=model.bridge.reads_top)

    def forward(self, states: EncoderStates) -> EncoderStates:
        """Add the layers' outputs, as states of tokens, and the final states."""
        sentences = find_sentences(states.source_BS, states.valid_BS)
        layers, x_BSD, outputs = list(self.layers), states.embedded_BSD, []
        mask_B1SS = additive_mask(sentences.seen_BSS[:, None], product_type(x_BSD))
        for layer in layers[: self.sentence_layers]:
            x_BSD = layer(x_BSD, mask_B1SS)
            outputs.append(x_BSD)
        width, count = x_BSD.shape[2], sentences.last_BK.shape[1]
        last_BKD = x_BSD.gather(1, sentences.last_BK[..., None].expand(-1, -1, width))
        document_BKD = last_BKD + self.positions.between(0, count, x_BSD.device).to(x_BSD.dtype)
        number_BSD = sentences.number_BS[..., None].expand(-1, -1, width)
        mask_B11K = mask_padding(sentences.valid_BK, document_BKD)
        for layer in layers[self.sentence_layers :]:
            document_BKD = layer(document_BKD, mask_B11K)
            outputs.append(x_BSD + self.spread(document_BKD).gather(1, number_BSD))
        return replace(states, layers=tuple(outputs), top_BSD=self.final_norm(outputs[-1]))
