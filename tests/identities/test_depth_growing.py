"""Depth growing: a silenced new module changes nothing, and training changes nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from lamina.errors import UsageError
from lamina.model.seq2seq import Seq2Seq
from lamina.training.growing import check_bottom, fill_bottom
from support import make_batch, small

DEEPER: dict[str, Any] = {"encoder": {"layers": 3, "new_layers": 1}, "decoder": {"layers": 3}}
norms = pytest.mark.parametrize("norm", ["pre", "post"])
heads = pytest.mark.parametrize("head", ["softmax", "surface", "pointer"])


def grow(norm: str, head: str = "softmax", wiring: str = "paper") -> tuple[Seq2Seq, Seq2Seq]:
    """A trained model and a deeper one grown from it."""
    old = small("transformer", norm=norm, head={"type": head})
    grown = small(
        "depth-growing",
        norm=norm,
        head={"type": head},
        bridge={"type": "grown", "wiring": wiring, "new_layers": 1},
        **DEEPER,
    )
    check_bottom(Path("old"), old.config, grown)
    fill_bottom(dict(old.named_parameters()), grown)
    return old, grown


def silence(model: Seq2Seq) -> None:
    """Silence the new module: no input, no sublayers, no post-norms."""
    with torch.no_grad():
        for stack in (model.encoder, model.decoder):
            for parameter in stack.wiring.input_norm.parameters():
                parameter.zero_()
            new = stack.layers[-1]
            for name, module in new.named_modules():
                if isinstance(module, nn.Linear) and name.rsplit(".", 1)[-1] in ("out", "down_proj"):
                    module.weight.zero_()
                    module.bias.zero_()
                if name.endswith("residual") and not module.pre:
                    module.norm = nn.Identity()


@norms
@heads
def test_a_silent_module_changes_nothing(norm: str, head: str) -> None:
    old, grown = grow(norm, head)
    silence(grown)
    batch = make_batch()
    with torch.no_grad():
        expected = old.log_probs(batch.source_BS, batch.prefix_BT)
        torch.testing.assert_close(grown.log_probs(batch.source_BS, batch.prefix_BT), expected)


@norms
def test_the_bottom_is_frozen(norm: str) -> None:
    old, grown = grow(norm)
    optimizer = torch.optim.Adam(grown.train().parameters(), lr=0.1)
    before = {name: parameter.clone() for name, parameter in grown.named_parameters()}
    for _ in range(2):
        optimizer.zero_grad()
        grown(*make_batch(), 0.1).mean().backward()
        optimizer.step()
    changed = {name for name, parameter in grown.named_parameters() if not torch.equal(parameter, before[name])}
    new = {name for name in before if ".layers.2." in name or ".input_norm." in name}
    assert changed == new | {name for name in before if ".final_norm." in name}
    frozen = {name for name, parameter in grown.named_parameters() if not parameter.requires_grad}
    assert frozen == before.keys() - changed
    for name, weight in old.named_parameters():
        name = name.replace("encoder.final_norm", "encoder.bottom_norm")
        if "decoder.final_norm" not in name:
            assert torch.equal(dict(grown.named_parameters())[name], weight), name


@norms
def test_the_wirings_differ_in_what_trained_decoder_layers_read(norm: str) -> None:
    (_, paper), (_, released) = grow(norm), grow(norm, wiring="release")
    released.load_state_dict(paper.state_dict())
    source_BS = make_batch().source_BS
    with torch.no_grad():
        enc = paper.encode(source_BS)
        own, other = paper.bridge(enc), released.bridge(enc)
    assert torch.equal(own[2].streams[0], other[2].streams[0])
    expected = own[0].streams[0] + paper.encoder.wiring.input_norm(enc.embedded_BSD)
    torch.testing.assert_close(other[0].streams[0], expected)


def test_a_mismatched_bottom_is_reported() -> None:
    _, grown = grow("pre")
    shallow = small("transformer", encoder={"layers": 1})
    with pytest.raises(UsageError, match="old: has 1 encoder layer, but the recipe has 2 below its new ones") as raised:
        check_bottom(Path("old"), shallow.config, grown)
    assert "Set model.encoder.layers to 1 plus model.encoder.new_layers" in str(raised.value)
    with pytest.raises(UsageError, match=r"Depth growing needs a model with encoder `grown` and bridge `grown`"):
        check_bottom(Path("old"), shallow.config, shallow)
    with pytest.raises(UsageError, match="depth growing requires encoder `stack`"):
        check_bottom(Path("old"), small("msc").config, grown)
