"""Export of plain Transformers to equivalent architectures of Hugging Face transformers.

Post-norm is `MarianMTModel`. Pre-norm is `PegasusForConditionalGeneration`: a norm before every sublayer and one after
each stack, scaled embeddings without a norm, and a position table that is part of the weights. (mBART and PLBart also
normalise the embeddings; M2M100 computes its own positions, starting from 2.)
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import safetensors
from safetensors.torch import save_file

from lamina.base.files import atomic_folder, require_absent
from lamina.errors import DataError
from lamina.interop.ctranslate2 import check_vocabularies, refuse
from lamina.interop.ctranslate2 import find_misfits as find_plain_misfits
from lamina.interop.huggingface.tokenizer import describe_tokenizer
from lamina.interop.huggingface.weights import POSITIONS, export_weights
from lamina.model.config import ModelConfig
from lamina.model.seq2seq import Seq2Seq
from lamina.recipe.decode import SearchSettings
from lamina.store.model_files import CARD
from lamina.text.pipeline import TextPipeline
from lamina.text.vocabulary import EOS, PAD
from lamina.version import __version__

ARCHITECTURES = {"post": ("marian", "MarianMTModel"), "pre": ("pegasus", "PegasusForConditionalGeneration")}
LONGEST_OUTPUT = 256


def export_huggingface(model: Seq2Seq, text: TextPipeline, decode: SearchSettings, out: Path) -> None:
    """Write a folder for `AutoModelForSeq2SeqLM.from_pretrained` and `AutoTokenizer.from_pretrained`."""
    refuse("Hugging Face transformers", find_misfits(model.config, text))
    check_vocabularies(model.config, text)
    require_absent(out)
    longest = min(text.source.longest or POSITIONS, POSITIONS)
    files = {
        "config.json": describe_config(model.config),
        "generation_config.json": describe_generation(model.config, decode),
        **describe_tokenizer(text, longest),
    }
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with atomic_folder(out) as partial:
            save_file(export_weights(model), partial / "model.safetensors", metadata={"format": "pt"})
            for name, content in files.items():
                written = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
                (partial / name).write_text(written, encoding="utf-8")
            for name, model_file in text.files.items():
                if name.endswith(".spm"):
                    (partial / name).write_bytes(model_file)
            (partial / "model.safetensors").chmod((partial / "config.json").stat().st_mode)
            (partial / CARD).write_text(card(model.config, text, longest), encoding="utf-8")
    except (OSError, safetensors.SafetensorError) as error:
        raise DataError(f"{out}: cannot be written ({getattr(error, 'strerror', error)}).") from error


def find_misfits(config: ModelConfig, text: TextPipeline) -> Iterator[str]:
    """Yield each choice that no architecture of transformers supports, with the reason."""
    yield from find_plain_misfits(config)
    if config.norm == "pre" and config.share_embeddings != "all":
        yield f"share_embeddings `{config.share_embeddings}` with pre-norm (Pegasus has a single embedding matrix)"
    if text.source.vocabulary != text.target.vocabulary:
        yield "separate vocabularies (its tokenizers have one)"
    if text.source.sentences:
        yield "`prepare --sentences` (its tokenizers do not mark sentence boundaries)"
    if text.kind == "bpe" or text.source.tokeniser is not None:
        yield f"subwords `{text.kind}` on Moses tokens (only SentencePiece and words)"


def describe_config(config: ModelConfig) -> dict[str, Any]:
    """Content of `config.json`: sizes, and all settings that differ from the defaults of transformers."""
    kind, architecture = ARCHITECTURES[config.norm]
    sizes = {
        f"{stack}_{name}": value
        for stack, layers in (("encoder", config.encoder.layers), ("decoder", config.decoder.layers))
        for name, value in (("layers", layers), ("attention_heads", config.heads), ("ffn_dim", config.ffn_size))
    }
    shared = {"share_encoder_decoder_embeddings": config.share_embeddings == "all"} if config.norm == "post" else {}
    return {
        "architectures": [architecture],
        "model_type": kind,
        "is_encoder_decoder": True,
        "vocab_size": config.source_vocab,
        "decoder_vocab_size": config.target_vocab,
        "d_model": config.d_model,
        **sizes,
        **shared,
        "tie_word_embeddings": config.share_embeddings != "none",
        "max_position_embeddings": POSITIONS,
        "activation_function": config.activation,
        "scale_embedding": True,
        "dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
        "activation_dropout": config.activation_dropout,
        "encoder_layerdrop": 0.0,
        "decoder_layerdrop": 0.0,
        "bos_token_id": None,
        "pad_token_id": PAD,
        "eos_token_id": EOS,
        "forced_eos_token_id": None,
        "decoder_start_token_id": config.start_id,
        "dtype": "float32",
    }


def describe_generation(config: ModelConfig, decode: SearchSettings) -> dict[str, Any]:
    """Content of `generation_config.json`: the run's search settings that transformers supports."""
    return {
        "num_beams": decode.beam,
        "length_penalty": decode.lenpen,
        "early_stopping": True,
        "min_new_tokens": decode.min_length,
        "max_new_tokens": LONGEST_OUTPUT,
        "no_repeat_ngram_size": decode.no_repeat_ngram,
        "bad_words_ids": [[PAD]],
        "do_sample": False,
        "pad_token_id": PAD,
        "eos_token_id": EOS,
        "decoder_start_token_id": config.start_id,
    }


def card(config: ModelConfig, text: TextPipeline, longest: int) -> str:
    """Model card with usage instructions."""
    _, architecture = ARCHITECTURES[config.norm]
    return f"""\
---
library_name: transformers
pipeline_tag: translation
language: [{text.source.language}, {text.target.language}]
---
# Translation model

`{architecture}`, {config.depth()}, {config.norm}-norm, \
d_model {config.d_model}; trained and written with Lamina {__version__}.

```python
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained(".")
model = AutoModelForSeq2SeqLM.from_pretrained(".")
batch = tokenizer(["A man plays the guitar."], return_tensors="pt", padding=True, truncation=True)
print(tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True))
```

- Sources may have up to {longest} tokens, outputs up to {LONGEST_OUTPUT} (`max_new_tokens`).
- The position table is part of the weights. `save_pretrained` of a Marian model omits it: copy it from this folder.
"""
