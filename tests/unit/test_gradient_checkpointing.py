"""Gradient checkpointing does not change gradients."""

from __future__ import annotations

import pytest
import torch

from lamina.model.encoders.stack import recompute_layers
from lamina.model.seq2seq import Seq2Seq
from support import make_batch, small


def gradients(model: Seq2Seq) -> dict[str, torch.Tensor]:
    model.zero_grad()
    torch.manual_seed(3)  # dropout
    model(*make_batch(), 0.1).mean().backward()
    return {name: parameter.grad.clone() for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("system", ["transformer", "dlcl", "msc", "transparent"])
def test_gradients_are_unchanged(system: str) -> None:
    model = small(system, dropout=0.2, attention_dropout=0.1).train()
    expected = gradients(model)
    recompute_layers(model.encoder)
    calls = []
    model.encoder.layers[0].feed_forward.register_forward_hook(lambda *_: calls.append(1))
    found = gradients(model)
    assert len(calls) == 2, "the layer was not computed twice"
    for name, gradient in expected.items():
        assert torch.equal(found[name], gradient), name
