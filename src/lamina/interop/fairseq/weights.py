"""Conversion of the release's weights to Lamina's names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from lamina.errors import DataError
from lamina.model.seq2seq import Seq2Seq

# Lamina's name to the release's; the first match applies.
NAMES = [
    (re.compile(pattern), name)
    for pattern, name in (
        (r"encoder\.layers\.(\d+)\.attention\.", r"encoder.layers.\1.self_attn."),
        (r"encoder\.layers\.(\d+)\.attention_residual\.norm\.", r"encoder.layers.\1.self_attn_layer_norm."),
        (r"decoder\.layers\.(\d+)\.target_attention\.attention\.", r"decoder.layers.\1.self_attn."),
        (r"decoder\.layers\.(\d+)\.target_residual\.norm\.", r"decoder.layers.\1.self_attn_layer_norm."),
        (r"decoder\.layers\.(\d+)\.cross_attention\.streams\.0\.", r"decoder.layers.\1.encoder_attn."),
        (r"decoder\.layers\.(\d+)\.cross_residual\.norm\.", r"decoder.layers.\1.encoder_attn_layer_norm."),
        (r"(..)coder\.layers\.(\d+)\.feed_forward\.up_proj\.", r"\1coder.layers.\2.fc1."),
        (r"(..)coder\.layers\.(\d+)\.feed_forward\.down_proj\.", r"\1coder.layers.\2.fc2."),
        (r"(..)coder\.layers\.(\d+)\.feed_forward_residual\.norm\.", r"\1coder.layers.\2.final_layer_norm."),
        (r"(..)coder\.final_norm\.", r"\1coder.layer_norm."),
        (r"bridge\.embedding_norm\.", "encoder.layernorm_srcemb."),
        (r"bridge\.norm\.", "decoder.ta_final_layernorm."),
        (r"bridge\.weight$", "decoder.ta_weight"),
        (r"head\.reader\.attention\.", "decoder.sf_attn."),
        (r"head\.feed_forward\.up_proj\.", "decoder.fc1."),
        (r"head\.feed_forward\.down_proj\.", "decoder.fc2."),
        (r"head\.target_linear\.", "decoder.tgt_out_dim."),
        (r"head\.source_linear\.", "decoder.src_out_dim."),
        (r"head\.gate\.weight$", "decoder.meanmaxweight"),
        (r"head\.weight_VD$", "decoder.embed_out"),
        (r"source_embedding\.tokens\.", "encoder.embed_tokens."),
        (r"target_embedding\.tokens\.", "decoder.embed_tokens."),
    )
]

# Present in every checkpoint of the release, even if unused.
ALWAYS_PRESENT = re.compile(
    r"(en|de)coder\.(version$|embed_positions\.)"
    r"|decoder\.(sf_attn\.|tgt_out_dim\.|src_out_dim\.|meanmaxweight$)"
)
MIXING = re.compile(r"decoder\.ta_(weight$|final_layernorm\.)|encoder\.layernorm_srcemb\.")


def take_weights(
    model: Seq2Seq, weights: dict[str, Tensor], arguments: dict[str, Any], where: str
) -> dict[str, Tensor]:
    """Map weights to the model's parameters; raise if a remaining weight is not known to be unused."""
    release = {name: release_names(name) for name, _ in model.named_parameters()}
    if model.config.share_embeddings == "all":
        release["source_embedding.tokens.weight"] = ["decoder.embed_tokens.weight"]
    weights = {str(name): weight for name, weight in weights.items()}
    missing = sorted({name for names in release.values() for name in names} - weights.keys())
    if missing:
        raise DataError(f"{where}: weight {missing[0]} is missing ({len(missing)} in total).")
    used = {name for names in release.values() for name in names}
    check_rows(weights, sorted(used), where)
    for name, parts in release.items():
        if len({weights[part].shape for part in parts}) > 1:
            raise DataError(f"{where}: {', '.join(parts)} must all have the same shape, to form {name}.")
    unexpected = [name for name in weights if name not in used and not is_unused(name, model, arguments)]
    if unexpected:
        raise DataError(f"{where}: unexpected weight {unexpected[0]} ({len(unexpected)} in total).")
    return {name: torch.cat([weights[part] for part in parts]).float() for name, parts in release.items()}


def check_rows(weights: dict[str, Tensor], names: Iterable[str], where: str) -> None:
    """Each of these must be a tensor with at least one dimension."""
    for name in names:
        if not isinstance(weights[name], Tensor) or not weights[name].dim():
            raise DataError(f"{where}: {name} is not a numeric tensor.")


def release_names(name: str) -> list[str]:
    """The release's name of a parameter, or its three names for a packed projection."""
    for pattern, replacement in NAMES:
        renamed, found = pattern.subn(replacement, name, count=1)
        if found:
            break
    renamed = renamed.replace(".out.", ".out_proj.")
    return [renamed.replace(".qkv.", f".{part}_proj.") for part in "qkv"] if ".qkv." in renamed else [renamed]


def is_unused(name: str, model: Seq2Seq, arguments: dict[str, Any]) -> bool:
    """Whether the release ignores this weight with these flags."""
    if ALWAYS_PRESENT.match(name):
        return True
    if name == "encoder.embed_tokens.weight":  # tied, stored twice
        return model.config.share_embeddings == "all"
    # mixing weights are created by `transparent_attention` but used only with `layer_wise_attention`
    mixing = arguments.get("transparent_attention") and (
        not arguments.get("layer_wise_attention") or name.startswith("encoder.layernorm_srcemb.")
    )
    return bool(mixing and MIXING.match(name))
