"""Depth growing (Wu et al. 2019): new layers are trained on top of a frozen trained model."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from lamina.base.wording import counted
from lamina.corpus.prepared import PreparedData
from lamina.errors import UsageError
from lamina.model.config import ModelConfig
from lamina.model.encoders.grown import GrownEncoder
from lamina.model.layers.growth import GrownWiring
from lamina.model.seq2seq import Seq2Seq
from lamina.names import option
from lamina.training.resuming import load_for


def grow_from(folder: Path, model: Seq2Seq, data: PreparedData) -> None:
    """Initialise the bottom of a grown model from a trained model, and freeze it."""
    folder, loaded = load_for(folder, data)
    check_bottom(folder, loaded.model.config, model)
    fill_bottom(dict(loaded.model.named_parameters()), model)


def check_bottom(folder: Path, trained: ModelConfig, model: Seq2Seq) -> None:
    """Raise unless the trained model matches the bottom of the grown one."""
    config = model.config
    if not isinstance(model.encoder, GrownEncoder) or not isinstance(model.decoder.wiring, GrownWiring):
        raise UsageError(
            f"Depth growing needs a model with encoder `grown` and bridge `grown` (system `depth-growing`), but the "
            f"recipe has `{config.encoder.type}` and `{config.bridge.type}`."
        )
    if (trained.encoder.type, trained.bridge.type, trained.decoder.wiring) != ("stack", "top", "residual"):
        raise UsageError(
            f"{folder}: depth growing requires encoder `stack`, bridge `top` and residual wiring, but it has "
            f"`{trained.encoder.type}`, `{trained.bridge.type}` and `{trained.decoder.wiring}`."
        )
    assert isinstance(model.encoder.wiring, GrownWiring)
    bottoms = (("encoder", model.encoder.wiring.bottom, "encoder"), ("decoder", model.decoder.wiring.bottom, "bridge"))
    for name, bottom, owner in bottoms:
        layers = getattr(trained, name).layers
        if layers != bottom:
            raise UsageError(
                f"{folder}: has {counted(layers, f'{name} layer')}, but the recipe has {bottom} below its new ones. "
                f"Set model.{name}.layers to {layers} plus model.{owner}.new_layers (by default a quarter of all)."
            )
    same = ("d_model", "ffn_size", "heads", "norm", "share_embeddings", "head")
    for name in same:
        if getattr(trained, name) != getattr(config, name):
            raise UsageError(
                f"{folder}: its {name} is {getattr(trained, name)!r}, but the recipe's is {getattr(config, name)!r}."
            )
    if trained.decoder.attention != config.decoder.attention:
        raise UsageError(
            f"{folder}: its decoder attention is `{trained.decoder.attention}`; the recipe must have the same."
        )


def fill_bottom(weights: dict[str, Tensor], model: Seq2Seq) -> None:
    """Copy and freeze the trained weights; the new final norms are initialised from the old ones and stay trainable."""
    own = dict(model.named_parameters())
    with torch.no_grad():
        for name, weight in weights.items():
            if ".final_norm." in name:
                own[name].copy_(weight)
                name = name.replace("encoder.final_norm", "encoder.bottom_norm")
                if name.startswith("decoder."):
                    continue
            own[name].copy_(weight)
            own[name].requires_grad_(False)


def prepare_growth(folder: Path | None, model: Seq2Seq, data: PreparedData) -> None:
    """Grow the model from `folder` if given; a model with grown wiring requires it."""
    if folder is not None:
        grow_from(folder, model, data)
    elif isinstance(model.decoder.wiring, GrownWiring):
        raise UsageError(f"A `grown` model is built around a trained one: give its run with {option('grow_from')}.")
