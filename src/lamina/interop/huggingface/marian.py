"""Import of Marian checkpoints in Hugging Face format (OPUS-MT).

Vocabulary rows are reordered, because Lamina's special symbols come first. Marian has no `<s>`; the added one gets a
zero embedding and a bias that makes it practically impossible. Marian's decoder starts with `<pad>`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import safetensors
import torch
from safetensors.torch import load_file
from torch import Tensor

from lamina.base.reading import read_json
from lamina.errors import DataError, UsageError
from lamina.interop.fairseq.weights import release_names
from lamina.model.config import ModelConfig
from lamina.model.seq2seq import Seq2Seq
from lamina.recipe.decode import SearchSettings
from lamina.store.model_folder import assign_weights
from lamina.text.pipeline import TextPipeline, make_pipeline
from lamina.text.vocabulary import BOS, PAD, SPECIALS, Vocabulary

UNLIKELY = 30.0  # margin of the bias of `<s>` below the lowest other bias
SIZES = (
    *("d_model", "vocab_size", "encoder_layers", "decoder_layers", "encoder_ffn_dim", "decoder_ffn_dim"),
    *("encoder_attention_heads", "decoder_attention_heads", "pad_token_id", "eos_token_id"),
)
NEUTRAL = {  # required values, and defaults if omitted
    "normalize_before": False,
    "normalize_embedding": False,
    "add_final_layer_norm": False,
    "add_bias_logits": False,
    "static_position_embeddings": True,
    "extra_pos_embeddings": 0,
    "scale_embedding": True,
    "share_encoder_decoder_embeddings": True,
    "tie_word_embeddings": True,
}


def load_marian(folder: Path) -> tuple[Seq2Seq, TextPipeline, SearchSettings]:
    """Load a model in evaluation mode, its text pipeline and its search settings."""
    config = read_part(folder, "config.json")
    check_config(config, folder / "config.json")
    symbols, order = read_vocabulary(folder, config)
    weights = read_weights(folder)
    model = Seq2Seq(convert_config(config, len(symbols)))
    assign_weights(model, convert_weights(model, weights, order, folder), str(folder))
    text = read_text_pipeline(folder, symbols)
    return model.eval(), text, SearchSettings(beam=min(256, int(config.get("num_beams") or 5)), max_length=(2.0, 50))


def read_part(folder: Path, name: str) -> dict[str, Any]:
    """Read a JSON file of the checkpoint."""
    path = folder / name
    if not path.exists():
        raise DataError(f"{path}: not found; {folder} is not a Marian checkpoint in Hugging Face format.")
    return read_json(path)


def check_config(config: dict[str, Any], path: Path) -> None:
    """Raise if a setting is not supported."""
    kind = config.get("model_type")
    if kind != "marian":
        raise UsageError(f"{path}: model_type must be `marian`, but is `{kind}` instead.")
    missing = [key for key in SIZES if not isinstance(config.get(key), int)]
    if missing:
        raise DataError(f"{path}: {missing[0]} must be a whole number, but is {config.get(missing[0])} instead.")
    for key, value in NEUTRAL.items():
        if config.get(key, value) != value:
            raise UsageError(f"{path}: {key} must be {value}, but is {config[key]} instead.")
    for one, other in (("encoder_ffn_dim", "decoder_ffn_dim"), ("encoder_attention_heads", "decoder_attention_heads")):
        if config.get(one) != config.get(other):
            raise UsageError(f"{path}: {one} and {other} must be equal, but are {config[one]} and {config[other]}.")
    if config.get("activation_function") not in ("relu", "swish", "silu", "gelu"):
        given = config.get("activation_function")
        raise UsageError(f"{path}: activation_function must be `relu`, `swish` or `gelu`, but is `{given}` instead.")


def convert_config(config: dict[str, Any], entries: int) -> ModelConfig:
    """Convert to Lamina's configuration."""
    activation = {"silu": "swish"}.get(config["activation_function"], config["activation_function"])
    return ModelConfig.model_validate(
        {
            "d_model": config["d_model"],
            "ffn_size": config["encoder_ffn_dim"],
            "heads": config["encoder_attention_heads"],
            "source_vocab": entries,
            "target_vocab": entries,
            "norm": "post",
            "dropout": float(config.get("dropout", 0.1)),
            "attention_dropout": float(config.get("attention_dropout", 0.0)),
            "activation_dropout": float(config.get("activation_dropout", 0.0)),
            "activation": activation,
            "encoder": {"type": "stack", "layers": config["encoder_layers"]},
            "decoder": {"layers": config["decoder_layers"]},
            "bridge": {"type": "top"},
            "head": {"type": "softmax", "bias": True},
            "start_id": PAD,
            "frequencies": "paper",
        }
    )


def read_vocabulary(folder: Path, config: dict[str, Any]) -> tuple[tuple[str, ...], list[int]]:
    """Return symbols in Lamina's order and the checkpoint's row of each except `<s>`."""
    ids = read_part(folder, "vocab.json")
    rows: dict[str, Any] = {
        "<pad>": config.get("pad_token_id"),
        "</s>": config.get("eos_token_id"),
        "<unk>": ids.get("<unk>"),
    }
    if any(not isinstance(row, int) for row in rows.values()) or config.get("decoder_start_token_id") != rows["<pad>"]:
        raise DataError(
            f"{folder}: the model must start decoding with <pad>, and its vocabulary must have <pad>, </s> and <unk>."
        )
    if any(not isinstance(row, int) for row in ids.values()):
        raise DataError(f"{folder / 'vocab.json'}: must map {config['vocab_size']} symbols to consecutive ids from 0.")
    others = sorted((row, symbol) for symbol, row in ids.items() if symbol not in SPECIALS)
    symbols = (*SPECIALS, *(symbol for _, symbol in others))
    order = [*(int(rows[symbol]) for symbol in SPECIALS[BOS + 1 :]), *(row for row, _ in others)]
    if sorted(order) != list(range(config["vocab_size"])):
        raise DataError(f"{folder / 'vocab.json'}: must map {config['vocab_size']} symbols to consecutive ids from 0.")
    return symbols, order


def read_weights(folder: Path) -> dict[str, Tensor]:
    """Read weights from safetensors, or from a pickle with `weights_only`."""
    path = folder / "model.safetensors"
    try:
        if path.is_file():
            return load_file(path)
        path = folder / "pytorch_model.bin"
        weights: dict[str, Tensor] = torch.load(path, map_location="cpu", weights_only=True)
        return weights
    except FileNotFoundError as error:
        raise DataError(f"{folder}: has neither model.safetensors nor pytorch_model.bin.") from error
    except Exception as error:  # libraries raise various errors for damaged files
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        kind = "safetensors" if isinstance(error, safetensors.SafetensorError) else "weights"
        raise DataError(f"{path}: cannot be read as {kind} ({reason}).") from error


def convert_weights(model: Seq2Seq, weights: dict[str, Tensor], order: list[int], folder: Path) -> dict[str, Tensor]:
    """Convert weights to Lamina's names."""
    rows = torch.tensor(order)
    shared = weights.get("model.shared.weight", weights.get("model.decoder.embed_tokens.weight"))
    if shared is None or len(shared) != len(order):
        raise DataError(f"{folder}: lacks the embedding of its {len(order)} symbols (model.shared.weight).")
    embedding_VD = torch.cat([shared.new_zeros(1, shared.shape[1]), shared[rows]])
    given = weights.get("final_logits_bias", torch.zeros(1, len(order)))[0]
    bias_V = torch.cat([given.min().view(1) - UNLIKELY, given[rows]])
    converted: dict[str, Tensor] = {}
    for name, _ in model.named_parameters():
        if name.endswith("_embedding.tokens.weight"):
            converted[name] = embedding_VD.float()
        elif name == "head.bias_V":
            converted[name] = bias_V.float()
        else:
            parts = [f"model.{part}" for part in release_names(name)]
            missing = [part for part in parts if part not in weights]
            if missing:
                raise DataError(f"{folder}: lacks the weight {missing[0]}.")
            converted[name] = torch.cat([weights[part] for part in parts]).float()
    return converted


def read_text_pipeline(folder: Path, symbols: tuple[str, ...]) -> TextPipeline:
    """Build a text pipeline from the checkpoint's SentencePiece models and the reordered vocabulary."""
    files = {f"vocabulary.{side}.txt": Vocabulary(symbols).text().encode("utf-8") for side in ("source", "target")}
    for name in ("source.spm", "target.spm"):
        try:
            files[name] = (folder / name).read_bytes()
        except OSError as error:
            raise DataError(f"{folder / name}: cannot be read ({error.strerror}).") from error
    languages = ("source", "target")
    if (folder / "tokenizer_config.json").is_file():
        known = read_part(folder, "tokenizer_config.json")
        languages = (str(known.get("source_lang") or "source"), str(known.get("target_lang") or "target"))
    try:
        return make_pipeline("marian", languages, False, files)
    except (RuntimeError, OSError) as error:
        raise DataError(f"{folder}: its .spm files are not SentencePiece models ({error}).") from error
