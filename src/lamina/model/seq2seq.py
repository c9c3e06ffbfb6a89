"""The whole model, composed of an encoder, a bridge, a decoder and a head.

tokens ─ embed ─► ENCODER ─► EncoderStates ─► BRIDGE ─► one Memory per decoder layer ─► decoder ─► HEAD
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from lamina.base.wording import counted
from lamina.errors import UsageError
from lamina.model.config import ModelConfig
from lamina.model.decoder import Decoder, DecoderCache
from lamina.model.init import initialise
from lamina.model.layers.embedding import SourceEmbedding, TargetEmbedding, build_embeddings, check_tokens
from lamina.model.layers.positions import build_positions
from lamina.model.layers.target_attention import CrossKV
from lamina.model.states import DecoderStates, EncoderStates, LogProbs, Loss, Memory, Targets
from lamina.text.vocabulary import BOS, EOS, PAD, UNK


@dataclass(frozen=True)
class ProjectedSource:
    """A batch of sources, projected for decoding."""

    decoder: tuple[CrossKV, ...]
    head: Any

    @property
    def sources(self) -> int:
        """The number of sources."""
        return len(self.decoder[0].valid_BS)


class Seq2Seq(nn.Module):
    """A sequence-to-sequence model with any encoder, bridge and head.

    Its special tokens are `pad_id` 1, `eos_id` 2 and `unk_id` 3; prefixes begin with `start_id`. Padding does not count
    in the loss.
    """

    bos_id, pad_id, eos_id, unk_id = BOS, PAD, EOS, UNK

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        source, target, softmax_VD = build_embeddings(config)
        positions = build_positions(config.d_model, config.first_position, config.frequencies)
        self.source_embedding = SourceEmbedding(source, positions, config.dropout, config.surface_positions)
        self.target_embedding = TargetEmbedding(target, positions, config.dropout)
        self.encoder = config.encoder.build(config)
        self.bridge = config.bridge.build(config)
        self.decoder = Decoder(config, self.encoder)
        self.head = config.head.build(config, softmax_VD)
        initialise(self, config.init)

    @property
    def start_id(self) -> int:
        """The token that prefixes start with."""
        return self.config.start_id

    def encode(self, source_BS: Tensor) -> EncoderStates:
        """Encode sources; padding may be on either side."""
        check_tokens("source", source_BS, self.config.source_vocab)
        return self.encoder(self.source_embedding(source_BS, source_BS != self.pad_id))

    def project_source(self, source_BS: Tensor) -> ProjectedSource:
        """Compute everything about the sources that stays fixed during decoding."""
        enc = self.encode(source_BS)
        memories = self.bridge(enc)
        check_memories(memories, self.config)
        return ProjectedSource(self.decoder.project_memories(memories), self.head.project_source(enc))

    def decode(self, prefix_BT: Tensor, memory: ProjectedSource) -> DecoderStates:
        """Decode all positions of prefixes, which may be padded on the right; states at padding are undefined."""
        check_tokens("prefix", prefix_BT, self.config.target_vocab, (memory.sources,))
        return self.decoder(self.target_embedding(prefix_BT), memory.decoder)

    def log_probs(self, source: Tensor, prefix: Tensor) -> Tensor:
        """Log-probabilities of the next token, (B, S), (B, T) → (B, T, V); row t follows `prefix[:, :t+1]`.

        They are the head's own: SurfaceFusion's published (`hard`) probabilities sum to at most 1.
        """
        memory = self.project_source(source)
        distribution: LogProbs = self.head(self.decode(prefix, memory), memory.head)
        return distribution.full()

    def attention(self, source: Tensor, prefix: Tensor) -> list[tuple[Tensor, ...]]:
        """Attention weights of every decoder layer for each stream of its memory, (B, H, T, S)."""
        memory = self.project_source(source)  # before recording: a tied reader is the encoder's self-attention too
        readers_of_layers = [layer.readers for layer in self.decoder.layers]
        for reader in (reader for readers in readers_of_layers for reader in readers):
            reader.recorded_weights = []
        try:
            self.decode(prefix, memory)
            length = source.shape[1]
            return [
                tuple((reader.recorded_weights or [])[0][..., :length] for reader in readers)
                for readers in readers_of_layers
            ]
        finally:
            for reader in (reader for readers in readers_of_layers for reader in readers):
                reader.recorded_weights = None

    def forward(
        self, source: Tensor, prefix: Tensor, target: Tensor, smoothing: float = 0.0, importance: Tensor | None = None
    ) -> Loss:
        """The label-smoothed loss of targets (B, T), the prefixes shifted by one; `importance` weights each token."""
        memory = self.project_source(source)
        states = self.decode(prefix, memory)
        check_tokens("target", target, self.config.target_vocab, prefix.shape)
        if not 0 <= smoothing < 1:
            raise UsageError(f"smoothing must be at least 0 and below 1, but is {smoothing} instead.")
        return self.head.loss(states, memory.head, Targets(target, self.pad_id, smoothing, importance))

    def normalised_nll(self, source: Tensor, prefix: Tensor, target: Tensor) -> Tensor:
        """−log p of every target token under the renormalised distribution, (B, T); 0 at padding."""
        memory = self.project_source(source)
        return self.head.normalised_nll(self.decode(prefix, memory), memory.head, Targets(target, self.pad_id))

    def start(self, memory: ProjectedSource, rows: int) -> DecoderCache:
        """The cache before the first decoding step, with `rows` rows for each source."""
        return self.decoder.start(memory.decoder, rows)

    def step(self, tokens_R: Tensor, memory: ProjectedSource, cache: DecoderCache) -> tuple[LogProbs, DecoderCache]:
        """Decode one more token of every row; the distributions are (B, W, V), with W rows per source, in order."""
        x_RD = self.target_embedding.step(tokens_R, cache.position)
        x_BWD = x_RD.view(memory.sources, cache.seen_BWM.shape[1], self.config.d_model)
        states, cache = self.decoder.step(x_BWD, memory.decoder, cache)
        return self.head(states, memory.head), cache


def check_memories(memories: object, config: ModelConfig) -> None:
    """Check that a bridge returned one memory per decoder layer, each with its number of streams."""
    returned = memories if isinstance(memories, tuple | list) else [memories]
    streams = [len(each.streams) if isinstance(each, Memory) else type(each).__name__ for each in returned]
    layers, expected = config.decoder.layers, config.bridge.streams
    if returned is not memories or streams != [expected] * layers:
        wanted = f"{layers} memories, one per decoder layer, with {counted(expected, 'stream')} each"
        given = f"streams returned: {streams}" if returned is memories else f"returned: {type(memories).__name__}"
        raise UsageError(f"Bridge `{config.bridge.type}` must return a tuple of {wanted}; {given}.")
