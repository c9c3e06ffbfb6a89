"""Export to CTranslate2 (https://opennmt.net/CTranslate2), an engine for plain Transformers without Python.

What it cannot express is refused by name: a model that ran but gave other translations would be worse than none.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from lamina.base.files import atomic_folder, require_absent
from lamina.errors import DataError, MissingExtraError, UsageError
from lamina.model.config import ModelConfig
from lamina.model.decoder import CrossAttention, DecoderLayer
from lamina.model.encoders.stack import EncoderLayer, StackEncoder
from lamina.model.layers.attention import Attention
from lamina.model.layers.feedforward import FeedForward
from lamina.model.layers.positions import sinusoids
from lamina.model.layers.residuals import Residual
from lamina.model.layers.target_attention import SelfAttention
from lamina.model.seq2seq import Seq2Seq
from lamina.store.model_folder import CARD
from lamina.text.pipeline import TextPipeline
from lamina.text.vocabulary import BOS, EOS, SPECIALS, UNK
from lamina.version import __version__

POSITIONS = 2048  # CTranslate2's table does not grow; by default it reads 1,024 tokens and writes 256

EXPRESSIBLE = {  # socket: the one choice that fits, and what it means
    "encoder": ("stack", "it knows plain stacks"),
    "bridge": ("top", "it knows one memory, the encoder's final states"),
    "decoder attention": ("self", "it knows self-attention, then cross-attention"),
    "decoder wiring": ("residual", "it knows residuals from layer to layer"),
    "head": ("softmax", "it knows one softmax over the vocabulary"),
}


def export_ctranslate2(model: Seq2Seq, text: TextPipeline, out: Path) -> None:
    """Write a folder for `ctranslate2.Translator`, with the text pipeline's files and a card beside the weights."""
    misfits = list(find_misfits(model.config))
    if misfits:
        reasons = "; nor ".join(misfits)
        raise UsageError(f"CTranslate2 cannot express {reasons}. Lamina's own decoder can: `lamina translate`.")
    check_vocabularies(model.config, text)
    require_absent(out)
    spec = describe_model(model, text)
    spec.validate()
    spec.optimize()  # writes a shared matrix once
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with atomic_folder(out) as partial:
            spec.save(str(partial))
            text.save(partial)
            (partial / CARD).write_text(export_card(model.config, out.name), encoding="utf-8")
    except OSError as error:
        raise DataError(f"{out}: cannot be written ({error.strerror}).") from error


def find_misfits(config: ModelConfig) -> Iterator[str]:
    """Every socket's choice that CTranslate2 has no words for, and why."""
    chosen = {
        "encoder": config.encoder.type,
        "bridge": config.bridge.type,
        "decoder attention": config.decoder.attention,
        "decoder wiring": config.decoder.wiring,
        "head": config.head.type,
    }
    for socket, (fits, reason) in EXPRESSIBLE.items():
        if chosen[socket] != fits:
            yield f"{socket} `{chosen[socket]}`: {reason}"


def check_vocabularies(config: ModelConfig, text: TextPipeline) -> None:
    """Every row of an embedding needs its symbol."""
    for side, symbols, rows in (
        ("source", len(text.source.vocabulary), config.source_vocab),
        ("target", len(text.target.vocabulary), config.target_vocab),
    ):
        if symbols != rows:
            raise DataError(f"The {side} vocabulary must have {rows} entries, as the model has, but has {symbols}.")


def describe_model(model: Seq2Seq, text: TextPipeline) -> Any:
    """The model in CTranslate2's own terms."""
    try:
        from ctranslate2.specs import TransformerSpec  # type: ignore[import-untyped]
    except ImportError as error:
        raise MissingExtraError("--to ctranslate2", "ctranslate2") from error
    config = model.config
    depths = (config.encoder.layers, config.decoder.layers)
    spec = TransformerSpec.from_config(depths, config.heads, pre_norm=config.norm == "pre")
    spec.register_source_vocabulary(list(text.source.vocabulary.symbols))
    spec.register_target_vocabulary(list(text.target.vocabulary.symbols))
    spec.config.bos_token, spec.config.eos_token, spec.config.unk_token = (SPECIALS[i] for i in (BOS, EOS, UNK))
    spec.config.decoder_start_token = SPECIALS[model.start_id]
    spec.config.add_source_bos, spec.config.add_source_eos = False, True
    fill_encoder(spec.encoder, model)
    fill_decoder(spec.decoder, model)
    return spec


def fill_encoder(spec: Any, model: Seq2Seq) -> None:
    """Embedding, positions, layers and the final norm."""
    assert isinstance(model.encoder, StackEncoder)
    spec.embeddings[0].weight = array(model.source_embedding.tokens.weight)
    fill_input(spec, model.config)
    for layer_spec, layer in zip(spec.layer, model.encoder.layers, strict=True):
        assert isinstance(layer, EncoderLayer)
        fill_self_attention(layer_spec.self_attention, layer.attention, layer.attention_residual)
        fill_feed_forward(layer_spec.ffn, layer.feed_forward, layer.feed_forward_residual)
    if model.config.norm == "pre":
        fill_norm(spec.layer_norm, model.encoder.final_norm)


def fill_decoder(spec: Any, model: Seq2Seq) -> None:
    """The same, and the softmax matrix."""
    spec.embeddings.weight = array(model.target_embedding.tokens.weight)
    fill_input(spec, model.config)
    for layer_spec, layer in zip(spec.layer, model.decoder.layers, strict=True):
        fill_decoder_layer(layer_spec, layer)
    if model.config.norm == "pre":
        fill_norm(spec.layer_norm, model.decoder.final_norm)
    spec.projection.weight = array(model.head.weight_VD)


def fill_decoder_layer(spec: Any, layer: DecoderLayer) -> None:
    """Self-attention, cross-attention to the one memory, feed-forward."""
    assert isinstance(layer.target_attention, SelfAttention)
    fill_self_attention(spec.self_attention, layer.target_attention.attention, layer.target_residual)
    fill_cross_attention(spec.attention, layer.cross_attention, layer.cross_residual)
    fill_feed_forward(spec.ffn, layer.feed_forward, layer.feed_forward_residual)


def fill_input(spec: Any, config: ModelConfig) -> None:
    """√d on the embeddings, and our own positions: CTranslate2's count from 1."""
    first = config.first_position
    spec.scale_embeddings = True
    spec.position_encodings.encodings = array(sinusoids(first + POSITIONS, config.d_model)[first:])


def fill_self_attention(spec: Any, attention: Attention, residual: Residual) -> None:
    """Queries, keys and values are packed as ours are."""
    packed, out = spec.linear
    fill_linear(packed, attention.qkv.weight, attention.qkv.bias)
    fill_linear(out, attention.out.weight, attention.out.bias)
    fill_norm(spec.layer_norm, residual.norm)


def fill_cross_attention(spec: Any, attention: CrossAttention, residual: Residual) -> None:
    """Queries apart, keys and values packed."""
    (stream,) = attention.streams
    query, packed, out = spec.linear
    d_model = stream.out.in_features
    fill_linear(query, stream.qkv.weight[:d_model], stream.qkv.bias[:d_model])
    fill_linear(packed, stream.qkv.weight[d_model:], stream.qkv.bias[d_model:])
    fill_linear(out, stream.out.weight, stream.out.bias)
    fill_norm(spec.layer_norm, residual.norm)


def fill_feed_forward(spec: Any, feed_forward: FeedForward, residual: Residual) -> None:
    """ReLU is what the specification has between the two."""
    fill_linear(spec.linear_0, feed_forward.up_proj.weight, feed_forward.up_proj.bias)
    fill_linear(spec.linear_1, feed_forward.down_proj.weight, feed_forward.down_proj.bias)
    fill_norm(spec.layer_norm, residual.norm)


def fill_linear(spec: Any, weight: Tensor, bias: Tensor) -> None:
    """Both sides keep (out, in)."""
    spec.weight, spec.bias = array(weight), array(bias)


def fill_norm(spec: Any, norm: nn.Module) -> None:
    """A layer norm with its scale and shift."""
    assert isinstance(norm, nn.LayerNorm)
    spec.gamma, spec.beta = array(norm.weight), array(norm.bias)


def array(weight: Tensor) -> Any:
    """32-bit numbers; CTranslate2 quantises when it loads them."""
    return weight.detach().float().contiguous().cpu().numpy()


def export_card(config: ModelConfig, name: str) -> str:
    """How to use the folder."""
    return f"""\
# A CTranslate2 model

{config.encoder.layers} encoder and {config.decoder.layers} decoder layers, {config.norm}-norm, d_model \
{config.d_model}; written by Lamina {__version__}. The text pipeline's files are in the same folder:

```python
from pathlib import Path

import ctranslate2
from lamina.text.pipeline import TextPipeline

folder = Path("{name}")
text = TextPipeline.load(folder)
translator = ctranslate2.Translator(str(folder), compute_type="float32")  # or "int8"

lines = ["A man plays the guitar ."]
tokens = [text.source.vocabulary.decode(ids) for ids in text.source.encode(lines)]
results = translator.translate_batch(tokens, beam_size=5, length_penalty=1, return_end_token=True)
for result in results:
    print(text.target.decode(text.target.vocabulary.encode(result.hypotheses[0])))
```

- Tokens go in without `</s>`: CTranslate2 adds it.
- Keep `return_end_token=True`: older versions of CTranslate2 do not count `</s>` in the length penalty without it.
- CTranslate2 keeps `</s>` from being the first token (`min_decoding_length=1`) by taking it out of the first softmax:
  the log-probabilities of a sentence's hypotheses rise by one amount. With `min_decoding_length=0` they are Lamina's.
- It cuts sources after 1,024 tokens (`max_input_length`) and stops after 256 (`max_decoding_length`). Positions reach
  {POSITIONS:,}.
"""
