"""A system with its own part switched off equals the system without it, which verifies the equations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from lamina.model.layers.dlcl import DlclWiring
from lamina.model.layers.fusion import GatedFusion
from lamina.model.seq2seq import Seq2Seq
from support import make_batch, small

norms = pytest.mark.parametrize("norm", ["pre", "post"])


def copy_weights(source: Seq2Seq, target: Seq2Seq, rename: dict[str, str] | None = None) -> set[str]:
    """Copy all shared weights, after renaming; return the target's weights without a source."""
    given = dict(source.named_parameters())
    for old, new in (rename or {}).items():
        given = {name.replace(old, new): weight for name, weight in given.items()}
    wanted = dict(target.named_parameters())
    with torch.no_grad():
        for name in wanted.keys() & given.keys():
            wanted[name].copy_(given[name])
    return wanted.keys() - given.keys()


def assert_equal_models(one: Seq2Seq, other: Seq2Seq) -> None:
    batch = make_batch()
    with torch.no_grad():
        torch.testing.assert_close(
            one.log_probs(batch.source_BS, batch.prefix_BT), other.log_probs(batch.source_BS, batch.prefix_BT)
        )


@norms
@pytest.mark.parametrize("bridge", ["transparent", "fine_grained"])
def test_one_hot_mix_is_top(bridge: str, norm: str) -> None:
    """All weight on the last layer; the bridge's norm replaces the encoder's or is redundant."""
    top = small(norm=norm, encoder={"layers": 3})
    mixing = small(norm=norm, encoder={"layers": 3}, bridge={"type": bridge})
    copy_weights(top, mixing, {"encoder.final_norm": "bridge.norm"})
    with torch.no_grad():
        mixing.bridge.weight.fill_(-1e4)
        mixing.bridge.weight[:, -1] = 0
    if norm == "post":
        mixing.bridge.norm = nn.Identity()
    assert_equal_models(top, mixing)


@norms
def test_one_block_at_one_decoder_layer_is_top(norm: str) -> None:
    sizes = {"encoder": {"layers": 3}, "decoder": {"layers": 1}}
    top, blocks = small(norm=norm, **sizes), small(norm=norm, bridge={"type": "blocks"}, **sizes)
    assert not copy_weights(top, blocks, {"encoder.final_norm": "bridge.norms.0"})
    assert_equal_models(top, blocks)


@norms
def test_blocks_of_one_layer_are_layerwise(norm: str) -> None:
    blocks, layerwise = (small(norm=norm, bridge={"type": name}) for name in ("blocks", "layerwise"))
    assert not copy_weights(blocks, layerwise)
    assert_equal_models(blocks, layerwise)


@norms
def test_msc_with_gates_open_to_self_attention_is_block_scale(norm: str) -> None:
    sizes: dict[str, Any] = {"encoder": {"layers": 4}, "decoder": {"layers": 2}}
    msc, blocks = small("msc", norm=norm, **sizes), small("block-scale", norm=norm, **sizes)
    assert not copy_weights(msc, blocks, {"bridge.block_norms": "bridge.norms"})
    for module in msc.modules():
        if isinstance(module, GatedFusion):
            nn.init.zeros_(module.from_attended.weight)
            nn.init.zeros_(module.from_context.weight)
            nn.init.constant_(module.from_attended.bias, 1e4)
    assert_equal_models(msc, blocks)


@norms
@pytest.mark.parametrize("stack", ["encoder", "decoder"])
def test_dlcl_with_one_hot_rows_and_norms_off_is_the_stack(stack: str, norm: str) -> None:
    choice: dict[str, Any] = {"encoder": {"type": "dlcl"}} if stack == "encoder" else {"decoder": {"wiring": "dlcl"}}
    plain, dlcl = small(norm=norm), small(norm=norm, **choice)
    copy_weights(plain, dlcl)
    wiring = getattr(dlcl, stack).wiring
    assert isinstance(wiring, DlclWiring)
    wiring.norms = nn.ModuleList(nn.Identity() for _ in wiring.norms)
    with torch.no_grad():
        for row in wiring.rows:
            row.zero_()
            row[-1] = 1
    assert_equal_models(plain, dlcl)


@norms
def test_dlcl_reads_every_layer_by_its_weight(norm: str) -> None:
    """pre: Σ W_{l+1,k}·LN_k(y_k), post: LN_l(Σ W_{l+1,k}·y_k), LN_0 the identity; by hand, after some training."""
    wiring = DlclWiring(3, 4, norm)
    assert [row.tolist() for row in wiring.rows] == [[1.0], [0.5, 0.5], pytest.approx([1 / 3] * 3)]
    with torch.no_grad():
        for parameter in wiring.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    outputs = torch.randn(3, 2, 5, 4)
    kept = [wiring.keep(index, output) for index, output in enumerate(outputs)]
    for count in (1, 2, 3):
        below = list(outputs[:count])
        if norm == "pre":
            below[1:] = [wiring.norms[k](output) for k, output in enumerate(below[1:])]
        mixed = sum(weight * output for weight, output in zip(wiring.rows[count - 1], below, strict=True))
        expected = wiring.norms[count - 2](mixed) if norm == "post" and count > 1 else mixed
        torch.testing.assert_close(wiring.combine(kept[:count]), expected)


@norms
def test_surface_with_gate_one_and_nothing_else_is_softmax(norm: str) -> None:
    softmax = small(norm=norm)
    surface = small(norm=norm, head={"type": "surface", "gate": 1.0, "ffn": False})
    copy_weights(softmax, surface)
    assert_equal_models(softmax, surface)


def test_soft_is_postnorm_and_the_published_formula() -> None:
    soft, postnorm = (small(head={"type": "surface", "mode": mode, "tau": 0.7}) for mode in ("soft", "postnorm"))
    assert_equal_models(soft, postnorm)
    batch = make_batch()
    with torch.no_grad():
        memory = soft.project_source(batch.source_BS)
        sides = soft.head.sides(soft.decode(batch.prefix_BT, memory), memory.head)
        a, b = sides.target_BTD @ soft.head.weight_VD.T, sides.source_BTD @ soft.head.weight_VD.T
        formula = (a + (0.7 * b).log_softmax(dim=-1)).log_softmax(dim=-1)
        twice = ((0.7 * b).log_softmax(dim=-1) + a.log_softmax(dim=-1)).log_softmax(dim=-1)
        found = soft.log_probs(batch.source_BS, batch.prefix_BT)
    torch.testing.assert_close(found, formula)
    torch.testing.assert_close(found, twice)


@pytest.mark.parametrize("gate", [0.8, "learned"])
def test_renormalised_hard_is_hard_over_its_mass(gate: Any) -> None:
    hard, normal = (small(head={"type": "surface", "gate": gate, "renormalise": on}) for on in (False, True))
    batch = make_batch()
    with torch.no_grad():
        expected = hard.log_probs(batch.source_BS, batch.prefix_BT).log_softmax(dim=-1)
        torch.testing.assert_close(normal.log_probs(batch.source_BS, batch.prefix_BT), expected)


@pytest.mark.parametrize("gate", [0.8, "learned"])
def test_normalised_perplexity_of_hard_equals_the_renormalised_head(gate: Any) -> None:
    hard, normal = (small(head={"type": "surface", "gate": gate, "renormalise": on}) for on in (False, True))
    batch = make_batch()
    assert (hard.head.normalised, normal.head.normalised) == (False, True)
    with torch.no_grad():
        found = hard.normalised_nll(*batch)
        torch.testing.assert_close(found, normal(*batch).nll_BT)
        torch.testing.assert_close(found, normal.normalised_nll(*batch))
        assert not torch.allclose(found, hard(*batch).nll_BT)


@pytest.mark.parametrize("gate", [0.3, "learned"])
def test_hard_loss_is_two_weighted_cross_entropies(gate: Any) -> None:
    """λ·LS(a) + (1-λ)·LS(b), value and gradient, against torch's own cross-entropy."""
    model, batch, smoothing = small(head={"type": "surface", "gate": gate}), make_batch(), 0.1
    real_BT = batch.target_BT != 1

    def reference() -> torch.Tensor:
        memory = model.project_source(batch.source_BS)
        sides = model.head.sides(model.decode(batch.prefix_BT, memory), memory.head)
        gate_BT1 = torch.as_tensor(sides.gate).expand(*real_BT.shape, 1)
        total = torch.zeros(())
        for share, side in ((gate_BT1, sides.target_BTD), (1 - gate_BT1, sides.source_BTD)):
            logits = (side @ model.head.weight_VD.T)[real_BT]
            losses = nn.functional.cross_entropy(
                logits, batch.target_BT[real_BT], label_smoothing=smoothing, reduction="none"
            )
            total = total + (share[real_BT][:, 0] * losses).sum()
        return total

    expected, found = reference(), model(*batch, smoothing).total
    torch.testing.assert_close(found, expected)
    parameters = list(model.parameters())
    for found_grad, expected_grad in zip(
        torch.autograd.grad(found, parameters), torch.autograd.grad(expected, parameters), strict=True
    ):
        torch.testing.assert_close(found_grad, expected_grad, rtol=1e-4, atol=1e-5)


def test_average_attention_with_gates_open_is_the_running_mean() -> None:
    model = small(decoder={"attention": "average"})
    attention = model.decoder.layers[0].target_attention
    nn.init.zeros_(attention.gates.weight)
    with torch.no_grad():
        attention.gates.bias[:16], attention.gates.bias[16:] = -1e4, 1e4
    x_BTD = torch.randn(2, 5, 16)
    expected = torch.stack([x_BTD[:, : t + 1].mean(dim=1) for t in range(5)], dim=1)
    torch.testing.assert_close(attention(x_BTD, None), expected)


def test_mixed_attention_that_sees_no_memory_is_self_attention() -> None:
    """With the whole source masked, one attention over [memory ; y] is causal self-attention over y."""
    mixed, plain = (small(decoder={"attention": kind}) for kind in ("mixed", "self"))
    one, other = (model.decoder.layers[0].target_attention for model in (mixed, plain))
    one.load_state_dict(other.state_dict())
    memory = mixed.project_source(make_batch().source_BS).decoder[0]
    blind = replace(memory, valid_BS=torch.zeros_like(memory.valid_BS))
    x_BTD = torch.randn(3, 5, 16)
    torch.testing.assert_close(one(x_BTD, blind), other(x_BTD, memory))


def test_merged_attention_adds_the_running_mean_before_the_output_projection() -> None:
    model = small(decoder={"attention": "merged"})
    merged = model.decoder.layers[0].target_attention
    enc = model.encode(make_batch().source_BS)
    memory = model.decoder.project_memories(model.bridge(enc))[0]
    x_BTD, attention = torch.randn(3, 5, 16), merged.attention
    weights_BHTS = attention.weights(
        attention.query(x_BTD), memory.streams[0].keys_BHMK, memory.valid_BS[:, None, None, :]
    )
    heads_BTD = (weights_BHTS @ memory.streams[0].values_BHMK).transpose(1, 2).flatten(2)
    values_BTD = x_BTD @ attention.qkv.weight[32:].T + attention.qkv.bias[32:]
    means_BTD = torch.stack([values_BTD[:, : t + 1].mean(dim=1) for t in range(5)], dim=1)
    torch.testing.assert_close(merged(x_BTD, memory), attention.out(heads_BTD + means_BTD))
