"""Initialisation schemes: bounds that no weight exceeds and that large matrices approach."""

from __future__ import annotations

import math

import pytest
import torch

from lamina.model.seq2seq import Seq2Seq
from lamina.systems.build import build

D, F = 64, 96


def make(init: str) -> Seq2Seq:
    torch.manual_seed(1)
    return build("msc", size="tiny", vocab_size=500, d_model=D, ffn_size=F, init=init, encoder={"layers": 8})


def assert_uniform(matrix: torch.Tensor, bound: float) -> None:
    matrix = matrix.detach()
    assert 0.95 * bound < float(matrix.abs().max()) <= bound
    assert abs(float(matrix.mean())) < 0.05 * bound


def test_backbone() -> None:
    model = make("xavier")
    layer = model.encoder.layers[3]
    for part in layer.attention.qkv.weight.chunk(3):
        assert_uniform(part, math.sqrt(6 / (2 * D)) / math.sqrt(2))
    assert_uniform(layer.attention.out.weight, math.sqrt(6 / (2 * D)))
    assert_uniform(layer.feed_forward.up_proj.weight, math.sqrt(6 / (D + F)))
    for gate in model.encoder.cell.weight_ih.chunk(3):
        assert_uniform(gate, math.sqrt(6 / (2 * D)))


@pytest.mark.parametrize("stack", ["encoder", "decoder"])
def test_depth_scaled(stack: str) -> None:
    for number, layer in enumerate(getattr(make("ds"), stack).layers, start=1):
        assert_uniform(layer.feed_forward.down_proj.weight, math.sqrt(6 / (D + F)) / math.sqrt(number))
        attention = layer.attention if stack == "encoder" else layer.target_attention.attention
        for part in attention.qkv.weight.chunk(3):
            assert_uniform(part, math.sqrt(6 / (2 * D)) / math.sqrt(number))


def test_lipschitz() -> None:
    layer = make("lipschitz").encoder.layers[5]
    assert_uniform(layer.feed_forward.up_proj.weight, 1 / math.sqrt(D))
    assert_uniform(layer.feed_forward.down_proj.weight, 1 / math.sqrt(F))


@pytest.mark.parametrize("init", ["xavier", "ds", "lipschitz"])
def test_properties_of_all_schemes(init: str) -> None:
    model = make(init)
    embedding = model.source_embedding.tokens.weight
    assert float(embedding[2:].detach().std()) == pytest.approx(D**-0.5, rel=0.03)
    assert embedding[1].abs().sum() == 0
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            assert not parameter.any(), name
        if "norm" in name and name.endswith("weight"):
            assert (parameter == 1).all(), name
