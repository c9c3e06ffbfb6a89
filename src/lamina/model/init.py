"""Initialisation schemes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Literal

import torch
from torch import Tensor, nn

from lamina.model.layers.attention import Attention

Scheme = Literal["xavier", "ds", "lipschitz"]

LAYER = re.compile(r"(?:encoder|decoder)\.layers\.(\d+)\.")


def initialise(model: nn.Module, scheme: Scheme) -> None:
    """Initialise every matrix by the scheme and biases to 0; embeddings and mixing weights initialise themselves."""
    draw = {"xavier": xavier, "ds": depth_scaled, "lipschitz": lipschitz}[scheme]
    for name, gain, matrix in _matrices(model):
        draw(name, gain, matrix)


def xavier(name: str, gain: float, matrix: Tensor) -> None:
    """Xavier-uniform, with gain 1/√2 for queries, keys and values, as in fairseq."""
    nn.init.xavier_uniform_(matrix, gain)


def depth_scaled(name: str, gain: float, matrix: Tensor) -> None:
    """DS-Init (Zhang et al. 2019): U(±√(6/(in+out))/√l) in layer l; matrices outside the layers count as l = 1."""
    layer = LAYER.match(name)
    nn.init.xavier_uniform_(matrix, 1 / math.sqrt(int(layer[1]) + 1 if layer else 1))


def lipschitz(name: str, gain: float, matrix: Tensor) -> None:
    """Lipschitz-restricted (Xu et al. 2019): U(±√(1/fan_in))."""
    bound = 1 / math.sqrt(matrix.shape[1])
    nn.init.uniform_(matrix, -bound, bound)


@torch.no_grad()
def _matrices(model: nn.Module) -> Iterator[tuple[str, float, Tensor]]:
    """Every matrix, with packed ones split, its name and its Xavier gain."""
    packed = {id(module.qkv) for module in model.modules() if isinstance(module, Attention)}
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear):
            parts, gain = (3, 1 / math.sqrt(2)) if id(module) in packed else (1, 1.0)
            for matrix in module.weight.chunk(parts):
                yield f"{name}.weight", gain, matrix
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.GRUCell):
            for matrix in (*module.weight_ih.chunk(3), *module.weight_hh.chunk(3)):
                yield name, 1.0, matrix
            nn.init.zeros_(module.bias_ih)
            nn.init.zeros_(module.bias_hh)
