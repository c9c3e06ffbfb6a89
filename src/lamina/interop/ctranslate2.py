"""Export to CTranslate2 (https://opennmt.net/CTranslate2), a C++ engine for plain Transformers.

Models with unsupported parts are rejected: they would load, but translate differently.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from lamina.base.files import atomic_folder, require_absent
from lamina.errors import DataError, MissingExtraError, UsageError
from lamina.model.config import ModelConfig
from lamina.model.decoder import CrossAttention, DecoderLayer
from lamina.model.encoders.stack import EncoderLayer, StackEncoder
from lamina.model.heads.softmax import BiasedSoftmaxHead
from lamina.model.layers.attention import Attention
from lamina.model.layers.feedforward import FeedForward
from lamina.model.layers.positions import sinusoids
from lamina.model.layers.residuals import Residual
from lamina.model.layers.target_attention import SelfAttention
from lamina.model.seq2seq import Seq2Seq
from lamina.store.model_files import CARD
from lamina.text.pipeline import TextPipeline
from lamina.text.vocabulary import BOS, EOS, SPECIALS, UNK
from lamina.version import __version__

POSITIONS = 2048  # CTranslate2's table is fixed; by default it truncates inputs to 1,024 tokens and outputs to 256

SUPPORTED = {  # supported type per socket
    "encoder": "stack",
    "bridge": "top",
    "decoder attention": "self",
    "decoder wiring": "residual",
    "head": "softmax",
}


def export_ctranslate2(model: Seq2Seq, text: TextPipeline, out: Path, int8: bool = False) -> None:
    """Write a folder for `ctranslate2.Translator`, with the text pipeline's files and a model card."""
    refuse("CTranslate2", find_misfits(model.config))
    check_vocabularies(model.config, text)
    require_absent(out)
    spec = describe_model(model, text)
    spec.validate()
    spec.optimize(quantization="int8" if int8 else None)  # stores tied weights once
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with atomic_folder(out) as partial:
            spec.save(str(partial))
            text.save(partial)
            (partial / CARD).write_text(export_card(model.config, out.name), encoding="utf-8")
    except OSError as error:
        raise DataError(f"{out}: cannot be written ({error.strerror}).") from error


def find_misfits(config: ModelConfig) -> Iterator[str]:
    """Yield each unsupported choice, with the supported one."""
    chosen = {
        "encoder": config.encoder.type,
        "bridge": config.bridge.type,
        "decoder attention": config.decoder.attention,
        "decoder wiring": config.decoder.wiring,
        "head": config.head.type,
    }
    for socket, supported in SUPPORTED.items():
        if chosen[socket] != supported:
            yield f"{socket} `{chosen[socket]}` (only `{supported}`)"


def refuse(engine: str, misfits: Iterable[str]) -> None:
    """Raise if the engine does not support something, naming all of it."""
    if found := " or ".join(misfits):
        raise UsageError(f"{engine} does not support {found}. ONNX does: `lamina export --to onnx`.")


def check_vocabularies(config: ModelConfig, text: TextPipeline) -> None:
    """Raise unless vocabularies and embeddings have the same size."""
    for side, symbols, rows in (
        ("source", len(text.source.vocabulary), config.source_vocab),
        ("target", len(text.target.vocabulary), config.target_vocab),
    ):
        if symbols != rows:
            raise DataError(f"The {side} vocabulary must have {rows} entries to match the model, but has {symbols}.")


def describe_model(model: Seq2Seq, text: TextPipeline) -> Any:
    """Build the CTranslate2 specification of a model."""
    try:
        from ctranslate2.specs import TransformerSpec  # type: ignore[import-untyped]
        from ctranslate2.specs.common_spec import Activation  # type: ignore[import-untyped]
    except ImportError as error:
        raise MissingExtraError("The format of CTranslate2", "ctranslate2") from error
    config = model.config
    depths = (config.encoder.layers, config.decoder.layers)
    activation = {"relu": Activation.RELU, "swish": Activation.SWISH, "gelu": Activation.GELU}[config.activation]
    spec = TransformerSpec.from_config(depths, config.heads, pre_norm=config.norm == "pre", activation=activation)
    spec.register_source_vocabulary(list(text.source.vocabulary.symbols))
    spec.register_target_vocabulary(list(text.target.vocabulary.symbols))
    spec.config.bos_token, spec.config.eos_token, spec.config.unk_token = (SPECIALS[i] for i in (BOS, EOS, UNK))
    spec.config.decoder_start_token = SPECIALS[model.start_id]
    spec.config.add_source_bos, spec.config.add_source_eos = False, True
    fill_encoder(spec.encoder, model)
    fill_decoder(spec.decoder, model)
    return spec


def fill_encoder(spec: Any, model: Seq2Seq) -> None:
    """Fill in embedding, positions, layers and the final norm."""
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
    """Fill in embedding, positions, layers, the final norm and the output projection."""
    spec.embeddings.weight = array(model.target_embedding.tokens.weight)
    fill_input(spec, model.config)
    for layer_spec, layer in zip(spec.layer, model.decoder.layers, strict=True):
        fill_decoder_layer(layer_spec, layer)
    if model.config.norm == "pre":
        fill_norm(spec.layer_norm, model.decoder.final_norm)
    spec.projection.weight = array(model.head.weight_VD)
    if isinstance(model.head, BiasedSoftmaxHead):
        spec.projection.bias = array(model.head.bias_V)


def fill_decoder_layer(spec: Any, layer: DecoderLayer) -> None:
    """Fill in self-attention, cross-attention and feed-forward."""
    assert isinstance(layer.target_attention, SelfAttention)
    fill_self_attention(spec.self_attention, layer.target_attention.attention, layer.target_residual)
    fill_cross_attention(spec.attention, layer.cross_attention, layer.cross_residual)
    fill_feed_forward(spec.ffn, layer.feed_forward, layer.feed_forward_residual)


def fill_input(spec: Any, config: ModelConfig) -> None:
    """Scale embeddings by √d and use Lamina's positions: CTranslate2's start from 1."""
    first = config.first_position
    spec.scale_embeddings = True
    spec.position_encodings.encodings = array(
        sinusoids(first + POSITIONS, config.d_model, kind=config.frequencies)[first:]
    )


def fill_self_attention(spec: Any, attention: Attention, residual: Residual) -> None:
    """Fill in packed queries, keys and values, as in Lamina."""
    packed, out = spec.linear
    fill_linear(packed, attention.qkv.weight, attention.qkv.bias)
    fill_linear(out, attention.out.weight, attention.out.bias)
    fill_norm(spec.layer_norm, residual.norm)


def fill_cross_attention(spec: Any, attention: CrossAttention, residual: Residual) -> None:
    """Fill in separate queries, packed keys and values."""
    (stream,) = attention.streams
    query, packed, out = spec.linear
    d_model = stream.out.in_features
    fill_linear(query, stream.qkv.weight[:d_model], stream.qkv.bias[:d_model])
    fill_linear(packed, stream.qkv.weight[d_model:], stream.qkv.bias[d_model:])
    fill_linear(out, stream.out.weight, stream.out.bias)
    fill_norm(spec.layer_norm, residual.norm)


def fill_feed_forward(spec: Any, feed_forward: FeedForward, residual: Residual) -> None:
    """Fill in both projections and the norm; the activation is set in the specification."""
    fill_linear(spec.linear_0, feed_forward.up_proj.weight, feed_forward.up_proj.bias)
    fill_linear(spec.linear_1, feed_forward.down_proj.weight, feed_forward.down_proj.bias)
    fill_norm(spec.layer_norm, residual.norm)


def fill_linear(spec: Any, weight: Tensor, bias: Tensor) -> None:
    """Fill in a linear layer; both toolkits store weights as (out, in)."""
    spec.weight, spec.bias = array(weight), array(bias)


def fill_norm(spec: Any, norm: nn.Module) -> None:
    """Fill in a layer norm's scale and shift."""
    assert isinstance(norm, nn.LayerNorm)
    spec.gamma, spec.beta = array(norm.weight), array(norm.bias)


def array(weight: Tensor) -> Any:
    """Convert to an fp32 array; CTranslate2 quantises on loading."""
    return weight.detach().float().contiguous().cpu().numpy()


def export_card(config: ModelConfig, name: str) -> str:
    """Model card with usage instructions."""
    return f"""\
# CTranslate2 model

{config.depth()}, {config.norm}-norm, d_model \
{config.d_model}; written by Lamina {__version__}. The text pipeline's files are in the same folder:

```python
from pathlib import Path

import ctranslate2
from lamina.text.pipeline import TextPipeline

folder = Path("{name}")
text = TextPipeline.load(folder)
translator = ctranslate2.Translator(str(folder), compute_type="float32")  # or "int8"

lines = ["A man plays the guitar ."]
symbols = text.source.vocabulary.symbols
tokens = [[symbols[index] for index in text.source.truncate(ids)[:-1]] for ids in text.source.encode(lines)]
results = translator.translate_batch(tokens, beam_size=5, length_penalty=1, return_end_token=True)
for result in results:
    print(text.target.decode(text.target.vocabulary.encode(result.hypotheses[0])))
```

- Pass tokens without `</s>`: CTranslate2 adds it.
- Keep `return_end_token=True`: older versions of CTranslate2 do not count `</s>` in the length penalty without it.
- By default (`min_decoding_length=1`), CTranslate2 removes `</s>` from the first softmax, which raises the
  log-probabilities of all hypotheses of a sentence by the same amount. With `min_decoding_length=0` they are Lamina's.
- Sources are truncated after 1,024 tokens (`max_input_length`) and translations after 256 (`max_decoding_length`). The
  position table has {POSITIONS:,} rows.
"""
