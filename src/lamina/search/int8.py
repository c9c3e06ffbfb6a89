"""Linear layers in 8 bits: weights quantised once per row, activations at every call.

The only place that knows torch's quantised kernels.
"""

from __future__ import annotations

import copy
import math
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from lamina.errors import UsageError
from lamina.model.layers.attention import PackedLinear
from lamina.model.seq2seq import Seq2Seq
from lamina.search import kernels
from lamina.search.kernels import Floats
from lamina.search.products import FEW, product
from lamina.search.quick_encoder import give_quick_layers
from lamina.search.quick_parts import Product
from lamina.search.quick_step import give_quick_steps
from lamina.search.stepper import ModelStepper

SOURCES, LENGTH, ROWS, REPEATS = 32, 16, 5, 4  # of a step that is timed
WIDE = 256  # inputs of a layer that gains by 8 bits: a narrower one is done before its input is quantised


def quantise(model: Seq2Seq) -> Seq2Seq:
    """A copy whose wide linear layers and softmax matrix are in 8 bits; for decoding on a CPU."""
    if next(model.parameters()).device.type != "cpu":
        raise UsageError("--int8 is for CPUs; on a GPU leave it out.")
    model = copy.deepcopy(model)
    give_quick_layers(model.encoder, int8_product_if_wide)
    give_quick_steps(model.decoder, int8_product_if_wide)
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear) and child.in_features >= WIDE:
                setattr(module, name, Int8Packed(child) if isinstance(child, PackedLinear) else Int8Linear(child))
    model.head.product = int8_vocabulary_product(model.head.weight_VD.detach())
    return model


def step_ratio(model: Seq2Seq, quantised: Seq2Seq) -> float:
    """The time of a decoding step in 8 bits as a share of that in 32, here and now: the fastest of a few of each."""
    source_BS = torch.arange(SOURCES * LENGTH).view(SOURCES, LENGTH) % model.config.source_vocab
    tokens_R = torch.full((SOURCES * ROWS,), model.start_id)
    fastest: dict[Seq2Seq, float] = {model: math.inf, quantised: math.inf}
    with torch.inference_mode():
        for _ in range(REPEATS):
            for each in fastest:
                stepper = ModelStepper(each)
                state = stepper.start(source_BS, ROWS)
                started = time.perf_counter()
                stepper.step(tokens_R, state)
                fastest[each] = min(fastest[each], time.perf_counter() - started)
    return fastest[quantised] / fastest[model]


def int8_product_if_wide(weight: Tensor) -> Product:
    """x ↦ W·x, in 8 bits if that is faster."""
    if weight.shape[1] < WIDE:
        return product(weight)
    multiply, quantised = int8_product(weight, None), in_eight_bits(weight)
    matrix, scales = quantised.int_repr().numpy(), quantised.q_per_channel_scales().float().numpy()

    def choose(x_RD: Floats) -> Floats:
        few = len(x_RD) <= FEW
        return kernels.few_rows_int8_product(x_RD, matrix, scales) if few else multiply(torch.from_numpy(x_RD)).numpy()

    return choose


def int8_vocabulary_product(weight_VD: Tensor) -> Callable[[Tensor], Tensor]:
    """x ↦ E·x for (B, T, D); oneDNN is faster with a large matrix, but not for few rows, and slow at a new shape."""
    few, many = int8_product(weight_VD, None), int8_product(weight_VD, None, "onednn")
    return lambda x_BTD: (few if x_BTD.shape[:2].numel() <= FEW else many)(x_BTD)


def int8_product(weight: Tensor, bias: Tensor | None, engine: str = "fbgemm") -> Callable[[Tensor], Tensor]:
    """x ↦ W·x + b; x is quantised by its own range, and `reduce_range` keeps AVX2's 16-bit sums from overflowing."""
    packed = pack(weight, bias, engine)
    return lambda x: torch.ops.quantized.linear_dynamic(x, packed, True)


class Int8Linear(nn.Module):
    """`nn.Linear` in 8 bits."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.product = int8_product(linear.weight.detach(), None if linear.bias is None else linear.bias.detach())

    def forward(self, x: Tensor) -> Tensor:
        """W·x + b."""
        return self.product(x)


class Int8Packed(nn.Module):
    """`PackedLinear` in 8 bits, with the parts that attention asks for."""

    def __init__(self, linear: PackedLinear) -> None:
        super().__init__()
        size, weight, bias = linear.in_features, linear.weight.detach(), linear.bias.detach()
        self.parts = {
            (first, last): int8_product(weight[first * size : last * size], bias[first * size : last * size])
            for first, last in ((0, 3), (0, 1), (1, 3), (1, 2), (2, 3))
        }

    def project(self, x_BTD: Tensor, first: int, last: int) -> Tensor:
        """Parts `first` up to `last`, side by side."""
        return self.parts[first, last](x_BTD)


@contextmanager
def use_engine(name: str) -> Iterator[None]:
    """Use this engine of torch's, where there is one."""
    engines = torch.backends.quantized
    before = engines.engine
    if name in engines.supported_engines:
        engines.engine = name
    try:
        yield
    finally:
        engines.engine = before


def pack(weight: Tensor, bias: Tensor | None, engine: str) -> Any:
    """A quantised matrix in the layout of an engine."""
    with warnings.catch_warnings(), use_engine(engine):
        warnings.simplefilter("ignore")  # torch warns that these kernels will move; this module is all that uses them
        return torch.ops.quantized.linear_prepack(in_eight_bits(weight), bias)


def in_eight_bits(weight: Tensor) -> Tensor:
    """A matrix whose rows have a scale each."""
    scales = weight.abs().amax(dim=1).clamp(min=1e-12) / 127
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        zeros = torch.zeros(len(weight), dtype=torch.int64)
        return torch.quantize_per_channel(weight, scales.double(), zeros, 0, torch.qint8)
