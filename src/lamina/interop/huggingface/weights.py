"""Conversion of a plain Transformer's weights to the names of Hugging Face transformers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from lamina.model.heads.softmax import BiasedSoftmaxHead
from lamina.model.layers.attention import Attention
from lamina.model.layers.positions import sinusoids
from lamina.model.seq2seq import Seq2Seq

POSITIONS = 1024  # rows of the position table
Named = Iterator[tuple[str, Tensor]]


def export_weights(model: Seq2Seq) -> dict[str, Tensor]:
    """Convert all weights for `MarianMTModel` or `PegasusForConditionalGeneration`, which share names."""
    return {name: weight.detach().float().contiguous().cpu() for name, weight in named_weights(model)}


def named_weights(model: Seq2Seq) -> Named:
    """Yield all weights, tied ones once, and Lamina's position table."""
    config = model.config
    if config.share_embeddings == "all":
        yield "model.shared.weight", model.source_embedding.tokens.weight
    else:
        yield "model.encoder.embed_tokens.weight", model.source_embedding.tokens.weight
        yield "model.decoder.embed_tokens.weight", model.target_embedding.tokens.weight
        if config.share_embeddings == "none":
            yield "lm_head.weight", model.head.weight_VD
    bias_V = model.head.bias_V if isinstance(model.head, BiasedSoftmaxHead) else torch.zeros(config.target_vocab)
    yield "final_logits_bias", bias_V[None]
    first = config.first_position
    for stack in ("encoder", "decoder"):
        table_PD = sinusoids(first + POSITIONS, config.d_model, kind=config.frequencies)[first:]
        yield f"model.{stack}.embed_positions.weight", table_PD.clone()
    encoder: Any = model.encoder
    for index, layer in enumerate(encoder.layers):
        name = f"model.encoder.layers.{index}"
        yield from attention_weights(f"{name}.self_attn", layer.attention, layer.attention_residual.norm)
        yield from feed_forward_weights(name, layer)
    for index, part in enumerate(model.decoder.layers):
        name, self_attention = f"model.decoder.layers.{index}", part.target_attention
        assert isinstance(self_attention.attention, Attention)
        yield from attention_weights(f"{name}.self_attn", self_attention.attention, part.target_residual.norm)
        yield from attention_weights(f"{name}.encoder_attn", part.cross_attention.streams[0], part.cross_residual.norm)
        yield from feed_forward_weights(name, part)
    if config.norm == "pre":
        yield from module_weights("model.encoder.layer_norm", encoder.final_norm)
        yield from module_weights("model.decoder.layer_norm", model.decoder.final_norm)


def attention_weights(name: str, attention: Any, norm: nn.LayerNorm) -> Named:
    """Yield separate query, key and value projections, the output projection and the layer norm."""
    packed = attention.qkv
    for part, weight, bias in zip("qkv", packed.weight.chunk(3), packed.bias.chunk(3), strict=True):
        yield f"{name}.{part}_proj.weight", weight
        yield f"{name}.{part}_proj.bias", bias
    yield from module_weights(f"{name}.out_proj", attention.out)
    yield from module_weights(f"{name}_layer_norm", norm)


def feed_forward_weights(name: str, layer: Any) -> Named:
    """Yield both projections and the layer norm."""
    yield from module_weights(f"{name}.fc1", layer.feed_forward.up_proj)
    yield from module_weights(f"{name}.fc2", layer.feed_forward.down_proj)
    yield from module_weights(f"{name}.final_layer_norm", layer.feed_forward_residual.norm)


def module_weights(name: str, module: Any) -> Named:
    """Yield weight and bias."""
    yield f"{name}.weight", module.weight
    yield f"{name}.bias", module.bias
