"""The configuration of a whole model: sizes, and a choice for each socket."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, NonNegativeInt, SerializeAsAny

from lamina.base.settings import Rate, Settings
from lamina.base.wording import counted
from lamina.errors import Problem
from lamina.model.bridges import BRIDGES
from lamina.model.decoder import DecoderSettings
from lamina.model.encoders import ENCODERS
from lamina.model.heads import HEADS
from lamina.model.init import Scheme
from lamina.model.layers.feedforward import Activation
from lamina.model.layers.positions import Frequencies
from lamina.model.layers.residuals import Norm
from lamina.model.settings import BridgeSettings, EncoderSettings, HeadSettings, choose
from lamina.text.vocabulary import BOS, SPECIALS

SOCKETS: dict[str, Mapping[str, type[Settings]]] = {"encoder": ENCODERS, "bridge": BRIDGES, "head": HEADS}

Entries = Annotated[int, Field(gt=len(SPECIALS), le=10_000_000)]


class ModelConfig(Settings):
    """A recipe's `model` with everything resolved, and the vocabulary sizes: enough to rebuild the model."""

    d_model: Annotated[int, Field(gt=0, le=65_536)]  # model dimension
    ffn_size: Annotated[int, Field(gt=0, le=1_048_576)]  # hidden dimension of feed-forward networks
    heads: Annotated[int, Field(gt=0, le=1024)]  # number of attention heads; must divide `d_model`
    source_vocab: Entries
    target_vocab: Entries

    norm: Norm = "pre"  # layer norm before or after each sublayer
    init: Scheme = "xavier"  # initialisation scheme
    dropout: Rate = 0.1  # dropout on embeddings and residuals
    attention_dropout: Rate = 0.0  # dropout on attention weights
    activation_dropout: Rate = 0.0  # dropout after the activation of feed-forward networks
    activation: Activation = "relu"  # activation of feed-forward networks
    share_embeddings: Literal["all", "decoder", "none"] = "all"  # `decoder`: target embedding and softmax

    encoder: Annotated[SerializeAsAny[EncoderSettings], BeforeValidator(choose(ENCODERS))]
    decoder: DecoderSettings
    bridge: Annotated[SerializeAsAny[BridgeSettings], BeforeValidator(choose(BRIDGES))]
    head: Annotated[SerializeAsAny[HeadSettings], BeforeValidator(choose(HEADS))]

    start_id: Annotated[int, Field(ge=0, lt=len(SPECIALS))] = BOS  # first decoder input; eos in imports from fairseq
    first_position: NonNegativeInt = 0  # number of the first position; models imported from fairseq count from 2
    frequencies: Frequencies = "tensor2tensor"  # of the position sinusoids; models imported from Marian use `paper`
    surface_positions: bool = False  # imported models only: keep positions in the surface states

    @classmethod
    def part(cls, name: str, value: Any) -> type[Settings] | None:
        """The settings class of an option; a socket's is chosen by its `type`."""
        table = SOCKETS.get(name)
        if table is None:
            return super().part(name, value)
        return table.get(str(value.get("type"))) if isinstance(value, Mapping) else None

    @classmethod
    def keys(cls) -> list[str]:
        """The keys of a recipe's `model`: vocabulary sizes come from the data, and `size` sets other keys."""
        return ["size", *(name for name in cls.model_fields if name not in ("source_vocab", "target_vocab"))]

    def depth(self) -> str:
        """Describe the depth: 12 encoder layers and 1 decoder layer."""
        encoder, decoder = counted(self.encoder.layers, "encoder layer"), counted(self.decoder.layers, "decoder layer")
        return f"{encoder} and {decoder}"

    def problems(self) -> list[Problem]:
        """All incompatibilities between the options."""
        found: list[Problem] = []
        if self.d_model % self.heads:
            found.append(Problem("heads", f"must divide d_model {self.d_model}, but is {self.heads} instead."))
        if self.share_embeddings == "all" and self.source_vocab != self.target_vocab:
            found.append(
                Problem(
                    "share_embeddings",
                    f"`all` needs one vocabulary, but the source has {self.source_vocab} entries and the target "
                    f"{self.target_vocab}. Use `decoder` or `none`.",
                )
            )
        if self.bridge.reads_contexts and not self.encoder.makes_contexts:
            makers = ", ".join(f"`{name}`" for name, encoder in ENCODERS.items() if encoder.makes_contexts)
            found.append(
                Problem(
                    "bridge.type",
                    f"bridge `{self.bridge.type}` reads contexts, which encoder `{self.encoder.type}` does not provide."
                    f" Use encoder {makers}, or another bridge.",
                )
            )
        for part in (self.encoder, self.bridge, self.decoder, self.head):
            found.extend(part.problems(self))
        return found
