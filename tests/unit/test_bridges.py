"""Bridges: masks, DropConnect, blocks, aggregation by hand."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
import torch

from lamina.errors import ConfigurationError, UsageError
from lamina.model.settings import BridgeSettings
from lamina.model.states import Memory
from support import make_batch, small


@pytest.mark.parametrize("bridge", ["transparent", "fine_grained"])
@pytest.mark.parametrize("layer", [0, 1, 3])
def test_a_masked_layer_has_no_weight_and_the_others_keep_theirs(bridge: str, layer: int) -> None:
    model = small(encoder={"layers": 3}, bridge={"type": bridge})
    before = model.bridge.weights()
    with model.bridge.mask_layer(layer):
        masked = model.bridge.weights()
    others = [n for n in range(4) if n != layer]
    assert not masked[:, layer].any()
    assert torch.equal(masked[:, others], before[:, others])
    assert torch.equal(model.bridge.weights(), before)


def test_without_an_embedding_column_layers_still_count_from_one() -> None:
    model = small(encoder={"layers": 3}, bridge={"type": "transparent", "embedding": None})
    assert model.bridge.weight.shape == (2, 3)
    with model.bridge.mask_layer(1):
        assert not model.bridge.weights()[:, 0].any()
    with pytest.raises(UsageError, match="must be from 1 to 3, but is 0 instead"), model.bridge.mask_layer(0):
        pass


def test_transparent_reads_the_input_and_fine_grained_the_surface() -> None:
    enc_of = {}
    for bridge in ("transparent", "fine_grained"):
        model = small(encoder={"layers": 2}, bridge={"type": bridge})
        with torch.no_grad():
            model.bridge.weight.fill_(-1e4)
            model.bridge.weight[:, 0] = 0
        enc = model.encode(make_batch().source_BS)
        enc_of[bridge] = (model.bridge.norm, model.bridge(enc)[1].streams[0], enc)
    norm, memory, enc = enc_of["transparent"]
    torch.testing.assert_close(memory, norm(enc.embedded_BSD))
    norm, memory, enc = enc_of["fine_grained"]
    torch.testing.assert_close(memory, norm(enc.surface_BSD))


@pytest.mark.parametrize(("option", "rate"), [("dropconnect", 0.5), ("weight_dropout", 0.5)])
def test_dropout_on_weights_acts_in_training_only(option: str, rate: float) -> None:
    model = small(encoder={"layers": 3}, bridge={"type": "transparent", option: rate})
    assert torch.equal(model.bridge.weights(), model.bridge.weights())
    model.train()
    torch.manual_seed(0)
    draws = torch.stack([model.bridge.weights() for _ in range(200)])
    if option == "dropconnect":  # a dropped weight is 0 before the softmax, so rows still sum to 1
        torch.testing.assert_close(draws.sum(dim=-1), torch.ones(200, 2))
        assert draws.std(dim=0).min() > 0
    else:
        assert 0.4 < float((draws == 0).float().mean()) < 0.6


def test_aggregation_by_hand() -> None:
    def merge(module: torch.nn.Module, *inputs: torch.Tensor) -> torch.Tensor:
        inner = module.hidden(torch.cat(inputs, dim=-1)).sigmoid()
        return module.norm(module.out(inner) + sum(inputs))

    iterative = small(encoder={"layers": 4}, bridge={"type": "aggregation"})
    enc = iterative.encode(make_batch().source_BS)
    result = enc.layers[0]
    for module, layer in zip(iterative.bridge.merges, enc.layers[1:], strict=True):
        result = merge(module, layer, result)
    for memory in iterative.bridge(enc):
        torch.testing.assert_close(memory.streams[0], result)

    tree = small(encoder={"layers": 4}, bridge={"type": "aggregation", "mode": "hierarchical"})
    enc = tree.encode(make_batch().source_BS)
    first, second = tree.bridge.merges
    result = merge(second, enc.layers[2], enc.layers[3], merge(first, enc.layers[0], enc.layers[1]))
    torch.testing.assert_close(tree.bridge(enc)[0].streams[0], result)


@pytest.mark.parametrize("encoder", ["stack", "msc"])
def test_blocks_may_differ_in_size(encoder: str) -> None:
    own = {"type": encoder, "layers": 5} | ({"blocks": [1, 4]} if encoder == "msc" else {})
    bridge = {"type": "blocks"} | ({"blocks": [1, 4]} if encoder == "stack" else {})
    model = small(encoder=own, bridge=bridge)
    enc = model.encode(make_batch().source_BS)
    for norm, layer, memory in zip(model.bridge.norms, (0, 4), model.bridge(enc), strict=True):
        torch.testing.assert_close(memory.streams[0], norm(enc.layers[layer]))


def gru(cell: torch.nn.GRUCell, state: torch.Tensor, block: torch.Tensor) -> torch.Tensor:
    """GRU of Cho et al., written out."""
    of_block = (block @ cell.weight_ih.T + cell.bias_ih).chunk(3, dim=-1)
    of_state = (state @ cell.weight_hh.T + cell.bias_hh).chunk(3, dim=-1)
    reset, keep = (of_block[0] + of_state[0]).sigmoid(), (of_block[1] + of_state[1]).sigmoid()
    return (1 - keep) * (of_block[2] + reset * of_state[2]).tanh() + keep * state


def ffn(cell: torch.nn.Module, state: torch.Tensor, block: torch.Tensor) -> torch.Tensor:
    hidden = (torch.cat([state, block], dim=-1) @ cell.up_proj.weight.T + cell.up_proj.bias).clamp(min=0)
    return hidden @ cell.down_proj.weight.T + cell.down_proj.bias


@pytest.mark.parametrize("cell", [gru, ffn])
def test_contexts_run_over_depth_and_reach_the_decoder(cell: Any) -> None:
    model = small("msc", encoder={"layers": 5, "blocks": [2, 3], "cell": cell.__name__})
    enc = model.encode(make_batch().source_BS)
    first = cell(model.encoder.cell, enc.embedded_BSD, enc.layers[1])
    second = cell(model.encoder.cell, first, enc.layers[4])
    torch.testing.assert_close(enc.contexts, (first, second))
    bridge = model.bridge
    for n, (layer, context, memory) in enumerate(zip((1, 4), (first, second), bridge(enc), strict=True)):
        expected = (bridge.block_norms[n](enc.layers[layer]), bridge.context_norms[n](context))
        torch.testing.assert_close(memory.streams, expected)


def test_the_ffn_cell_is_as_wide_as_the_feed_forward_networks() -> None:
    assert small("msc", encoder={"cell": "ffn"}).encoder.cell.up_proj.weight.shape == (24, 32)


ABLATIONS = {
    "addition": {"encoder": {"fusion": "add"}, "bridge": {"fusion": "add"}},
    "ffn cell": {"encoder": {"cell": "ffn"}},
    "no context attention in the encoder": {"encoder": {"context_attention": False}},
    "no contextual collaboration": {"encoder": {"type": "stack"}, "bridge": {"type": "blocks"}},
    "no context in the decoder": {"bridge": {"type": "blocks"}},
}


@pytest.mark.parametrize("ablation", ABLATIONS)
def test_every_ablation_of_msc_trains_all_its_parameters(ablation: str) -> None:
    own = ABLATIONS[ablation]
    model = small("msc", **{**own, "encoder": {"layers": 4, **own.get("encoder", {})}})
    model(*make_batch(), 0.1).mean().backward()
    assert not [name for name, parameter in model.named_parameters() if parameter.grad is None]


def test_added_fusion_has_no_gate() -> None:
    model = small("msc", **ABLATIONS["addition"])
    assert not [name for name, _ in model.named_parameters() if "fusion" in name]


def test_tied_coordination_shares_attention_and_feed_forward() -> None:
    model = small("coordination")
    for encoder_layer, decoder_layer in zip(model.encoder.layers, model.decoder.layers, strict=True):
        assert decoder_layer.target_attention.attention is encoder_layer.attention
        assert decoder_layer.feed_forward is encoder_layer.feed_forward
    untied = small("coordination", decoder={"tie_encoder": False})
    count = [sum(p.numel() for p in each.parameters()) for each in (model, untied)]
    assert count[0] < count[1]


def test_an_unused_context_is_rejected() -> None:
    with pytest.raises(ConfigurationError, match=r"encoder\.context_attention: bridge `top` does not read"):
        small("msc", encoder={"context_attention": False}, bridge={"type": "top"})


def test_reads_top_must_be_a_property() -> None:
    with pytest.raises(TypeError, match=r"Wrong\.reads_top must be a property: decorate it with @property\."):

        class Wrong(BridgeSettings):
            def reads_top(self) -> bool:  # type: ignore[override]
                return True


def test_two_streams_need_a_fusion() -> None:
    with pytest.raises(TypeError, match=r"Wrong has 2 streams: override build_fusion, which combines them\."):

        class Wrong(BridgeSettings):
            streams: ClassVar[int] = 2


@pytest.mark.parametrize(
    ("returned", "given"),
    [
        (lambda memory: (memory,), "streams returned: [1]."),
        (lambda memory: memory, "returned: Memory."),
        (lambda memory: (memory, memory.streams[0]), "streams returned: [1, 'Tensor']."),
        (lambda memory: (Memory(memory.streams * 2, memory.valid_BS),) * 2, "streams returned: [2, 2]."),
    ],
)
def test_what_a_bridge_returns_is_checked(
    returned: Callable[[Memory], object], given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, batch = small("transformer", decoder={"layers": 2}), make_batch()
    right = model.bridge.forward
    monkeypatch.setattr(model.bridge, "forward", lambda enc: returned(right(enc)[0]))
    wanted = "Bridge `top` must return a tuple of 2 memories, one per decoder layer, with 1 stream each; "
    with pytest.raises(UsageError, match=re.escape(wanted + given)):
        model.log_probs(*batch[:2])
