"""Conversion of a checkpoint's command-line arguments to a model configuration.

Flags without effect at inference are ignored; a flag that changes the model in a way Lamina does not support is an
error.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from lamina.base.problems import describe_errors
from lamina.errors import DataError
from lamina.model.config import ModelConfig
from lamina.text.vocabulary import EOS, PAD, Vocabularies

# Defaults of the release's base architecture.
DEFAULTS: dict[str, Any] = {
    "encoder_embed_dim": 512,
    "encoder_ffn_embed_dim": 2048,
    "encoder_layers": 6,
    "encoder_attention_heads": 8,
    "decoder_layers": 6,
    "decoder_attention_heads": 8,
    "dropout": 0.1,
    "attention_dropout": 0.1,
    "activation_dropout": 0.0,
    "ta_dropout": 0.1,
    "ta_dropconnect": False,
    "encoder_normalize_before": False,
    "decoder_normalize_before": False,
    "share_decoder_input_output_embed": False,
    "share_all_embeddings": False,
    "layer_wise_attention": False,
    "transparent_attention": False,
    "fine_grained_ta": False,
    "ta_source_embedding": False,
    "ta_posedemb": False,
    "no_ta_embnorm": False,
    "surfacefusion": None,
    "sf_gate": 0.0,
    "sf_mode": None,
    "sf_linear": False,
    "sf_ffn": True,
    "sf_no_posedemb": True,
    "sf_softmax_tau": 1.0,
    "sf_attention_heads": 1,
    "sf_idx": 5,
}

# Flags that must have these values because Lamina does not implement others.
NEUTRAL: dict[str, Any] = {
    "encoder_learned_pos": False,
    "decoder_learned_pos": False,
    "no_token_positional_embeddings": False,
    "no_scale_embedding": False,
    "layernorm_embedding": False,
    "adaptive_softmax_cutoff": None,
    "adaptive_input": False,
    "no_cross_attention": False,
    "cross_self_attention": False,
    "addtional_source_output": "",
    "no_encoder_fnn": False,
    "no_decoder_fnn": False,
    "ta_ffn": False,
    "no_decoder_final_norm": False,
    "encoder_layers_to_keep": None,
    "decoder_layers_to_keep": None,
    "activation_fn": "relu",
}

# The release's own flags without effect at inference.
IDLE = {"sf_fuision_mode"}

EQUAL = (  # all must equal the first
    ("encoder_embed_dim", "decoder_embed_dim", "decoder_input_dim", "decoder_output_dim"),
    ("encoder_ffn_embed_dim", "decoder_ffn_embed_dim"),
    ("encoder_attention_heads", "decoder_attention_heads"),
    ("encoder_normalize_before", "decoder_normalize_before"),
)

READERS = {"att": "attention", "mean": "mean", "max": "max"}
MODES = ("hard", "soft", "postnorm")


def read_arguments(arguments: dict[str, Any], vocabularies: Vocabularies, where: str) -> ModelConfig:
    """Convert arguments to the configuration of the model that the release would build."""
    flags = {**DEFAULTS, **arguments}
    refused = list(refusals(flags))
    if refused:
        raise DataError("\n".join(f"{where}: cannot be imported: {reason}" for reason in refused))
    data = {
        "d_model": flags["encoder_embed_dim"],
        "ffn_size": flags["encoder_ffn_embed_dim"],
        "heads": flags["encoder_attention_heads"],
        "norm": "pre" if flags["encoder_normalize_before"] else "post",
        "source_vocab": len(vocabularies.source),
        "target_vocab": len(vocabularies.target),
        "share_embeddings": shared_embeddings(flags),
        "dropout": rate(flags, "dropout"),
        "attention_dropout": rate(flags, "attention_dropout"),
        "activation_dropout": rate(flags, "activation_dropout"),
        "encoder": {
            "type": "stack",
            "layers": flags["encoder_layers"],
            "frozen_final_norm": bool(flags["encoder_normalize_before"]) and mixes_layers(flags),
        },
        "decoder": {"layers": flags["decoder_layers"]},
        "bridge": bridge(flags),
        "head": head(flags),
        "start_id": EOS,
        "first_position": PAD + 1,
        "surface_positions": bool(not flags["sf_no_posedemb"] or flags["ta_posedemb"]),
    }
    try:
        config = ModelConfig.model_validate(data)
    except ValidationError as error:
        raise DataError("\n".join(f"{where}: {p}" for p in describe_errors(error, ModelConfig, data))) from error
    problems = config.problems()
    if problems:
        raise DataError("\n".join(f"{where}: {problem}" for problem in problems))
    return config


def refusals(flags: dict[str, Any]) -> Iterator[str]:
    """Yield a reason for each unsupported flag."""
    for name, neutral in NEUTRAL.items():
        value = flags.get(name, neutral)
        if (value or None) != (neutral or None):
            yield f"`{name}` must be {neutral!r}, but is {value!r} instead."
    for first, *others in EQUAL:
        for name in others:
            if flags.get(name, flags[first]) != flags[first]:
                yield f"`{name}` must equal `{first}` {flags[first]!r}, but is {flags[name]!r} instead."
    for name in flags:
        if name.startswith(("sf_", "ta_")) and name not in DEFAULTS.keys() | NEUTRAL.keys() | IDLE:
            yield f"unknown flag `{name}`."
    if flags["layer_wise_attention"] and flags["ta_source_embedding"] and not flags["transparent_attention"]:
        yield "`ta_source_embedding` requires `transparent_attention` if `layer_wise_attention` is set."
    if not flags["surfacefusion"]:
        return
    if flags["surfacefusion"] not in READERS:
        yield f"`surfacefusion` must be one of {', '.join(READERS)}, but is {flags['surfacefusion']!r} instead."
    if flags["sf_mode"] not in MODES:
        yield f"`sf_mode` must be one of {', '.join(MODES)}, but is {flags['sf_mode']!r} instead."
    if not isinstance(flags["decoder_layers"], int):
        yield f"`decoder_layers` must be a number, but is {flags['decoder_layers']!r} instead."
    elif not isinstance(flags["sf_idx"], int) or not 0 <= flags["sf_idx"] < flags["decoder_layers"]:
        yield f"`sf_idx` must be from 0 to {flags['decoder_layers'] - 1}, but is {flags['sf_idx']} instead."


def rate(flags: dict[str, Any], name: str) -> float:
    """Dropout rate for fine-tuning; an invalid value falls back to the default."""
    value = flags[name]
    return float(value) if isinstance(value, int | float) and 0 <= value < 1 else DEFAULTS[name]


def mixes_layers(flags: dict[str, Any]) -> bool:
    """Whether layers are mixed: `transparent_attention` has an effect only with `layer_wise_attention`."""
    return bool(flags["layer_wise_attention"] and flags["transparent_attention"])


def shared_embeddings(flags: dict[str, Any]) -> str:
    """Convert the flags for tied embeddings."""
    if flags["share_all_embeddings"]:
        return "all"
    return "decoder" if flags["share_decoder_input_output_embed"] else "none"


def bridge(flags: dict[str, Any]) -> dict[str, Any]:
    """Convert the bridge's flags."""
    if mixes_layers(flags):
        return {
            "type": "fine_grained" if flags["fine_grained_ta"] else "transparent",
            "embedding": "surface" if flags["ta_source_embedding"] else None,
            "embedding_norm": not flags["no_ta_embnorm"],
            "weight_dropout": 0.0 if flags["ta_dropconnect"] else rate(flags, "ta_dropout"),
            "dropconnect": rate(flags, "ta_dropout") if flags["ta_dropconnect"] else 0.0,
        }
    if flags["layer_wise_attention"]:
        return {"type": "layerwise", "norms": "last"}
    return {"type": "top"}


def head(flags: dict[str, Any]) -> dict[str, Any]:
    """Convert the head's flags: SurfaceFusion or plain softmax."""
    if not flags["surfacefusion"]:
        return {"type": "softmax"}
    chosen: dict[str, Any] = {
        "type": "surface",
        "mode": flags["sf_mode"],
        "ffn": bool(flags["sf_ffn"]),
        "linear": bool(flags["sf_linear"]),
        "reader": READERS[flags["surfacefusion"]],
    }
    if flags["sf_mode"] == "hard":
        chosen["gate"] = flags["sf_gate"] or "learned"  # 0 and None mean learned
    else:
        chosen["tau"] = flags["sf_softmax_tau"]
    if flags["surfacefusion"] == "att":
        return {**chosen, "reader_heads": flags["sf_attention_heads"], "layer": flags["sf_idx"] + 1}
    return {**chosen, "pool_from_id": 50}
