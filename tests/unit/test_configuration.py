"""Configuration errors: exact messages, reported together, with the closest name."""

from __future__ import annotations

import re
from typing import Any

import pytest

import lamina
from lamina.errors import ConfigurationError, UsageError
from lamina.model.bridges import BRIDGES
from lamina.model.encoders import ENCODERS
from lamina.model.heads import HEADS
from lamina.systems.published import override


def problems(system: str | None = None, vocab_size: Any = 100, **model: Any) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        lamina.build(system, size="tiny", vocab_size=vocab_size, **model)
    return str(caught.value).splitlines()


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"bridge": {"typ": "top"}}, "bridge.typ: not an option. Did you mean `type`?"),
        ({"decoder": {"atention": "self"}}, "decoder.atention: not an option. Did you mean `attention`?"),
        ({"head": {"type": "surface", "gat": 0.5}}, "head.gat: not an option. Did you mean `gate`?"),
        ({"droput": 0.1}, "droput: not an option. Did you mean `dropout`?"),
        ({"zzz": 1}, "zzz: not an option."),
        (
            {"bridge": {"type": "transparant"}},
            f"bridge.type: must be one of {', '.join(BRIDGES)}, but is `transparant` instead. "
            "Did you mean `transparent`?",
        ),
        ({"head": "surface"}, "head: must be a mapping such as {type: surface}, but is 'surface' instead."),
        ({"norm": "pro"}, "norm: must be `pre` or `post`, but is `pro` instead."),
        ({"dropout": 1.5}, "dropout: must be less than 1, but is 1.5 instead."),
        ({"dropout": "0.1"}, "dropout: must be a valid number, but is '0.1' instead."),
        ({"encoder": {"layers": 0}}, "encoder.layers: must be greater than 0, but is 0 instead."),
        ({"heads": 3}, "heads: must divide d_model 128, but is 3 instead."),
        (
            {"encoder": {"type": "msc", "layers": 6}},
            "encoder.layers: must be a multiple of the decoder's 4 layers for encoder `msc`, but is 6 instead. "
            "Unequal blocks can be given as `encoder.blocks`.",
        ),
        (
            {"encoder": {"type": "msc", "layers": 6, "blocks": [1, 2, 3]}},
            "encoder.blocks: must have one size per decoder layer (4), but has 3 instead.",
        ),
        (
            {"bridge": {"type": "blocks", "blocks": [1, 1, 1, 2]}},
            "bridge.blocks: must add up to 4, the number of encoder layers, but adds up to 5 instead.",
        ),
        (
            {"bridge": {"type": "collaborative"}},
            "bridge.type: bridge `collaborative` reads contexts, which encoder `stack` does not provide. "
            "Use encoder `msc`, or another bridge.",
        ),
        (
            {"encoder": {"layers": 6}, "bridge": {"type": "layerwise"}},
            "bridge.type: bridge `layerwise` needs as many encoder as decoder layers, but encoder `stack` has 6 and "
            "the decoder 4. For a deeper encoder use bridge `blocks`.",
        ),
        (
            {"encoder": {"layers": 3}, "bridge": {"type": "aggregation", "mode": "hierarchical"}},
            "bridge.mode: `hierarchical` merges pairs of layers, but encoder `stack` has 3, an odd number.",
        ),
        ({"decoder": {"tie_encoder": True}}, "decoder.tie_encoder: needs decoder attention `mixed`, but it is `self`"),
        (
            {"head": {"type": "surface", "mode": "soft", "gate": 0.5}},
            "head.gate: applies only to mode `hard`, but mode is `soft`.",
        ),
        (
            {"head": {"type": "surface", "tau": 2.0}},
            "head.tau: applies only to mode `soft`, but mode is `hard`.",
        ),
        (
            {"head": {"type": "surface", "layer": 5}},
            "head.layer: must be from 1 to 4, the number of decoder layers, but is 5 instead.",
        ),
        (
            {"head": {"type": "surface", "gate": "learnt"}},
            "head.gate: must be a number from 0 to 1, or `learned`, but is 'learnt' instead.",
        ),
        (
            {"head": {"type": "surface", "gate": 1.5}},
            "head.gate: must be a number from 0 to 1, or `learned`, but is 1.5 instead.",
        ),
        ({"decoder": "average"}, "decoder: must be a mapping, but is 'average' instead."),
        ({"share_embeddings": "all", "vocab_size": (90, 80)}, "share_embeddings: `all` needs one vocabulary, but"),
    ],
    ids=lambda value: str(value)[:50],
)
def test_messages(choices: dict[str, Any], message: str) -> None:
    (found,) = problems(**choices)
    assert found.startswith(message)


def test_all_problems_are_reported_together() -> None:
    found = problems(norm="both", droput=0.1, decoder={"attention": "none"})
    assert [line.split(":")[0] for line in found] == ["norm", "decoder.attention", "droput"]


def test_unknown_names() -> None:
    with pytest.raises(UsageError, match=r"Unknown system `mcs`\. Did you mean `msc`\?"):
        lamina.build("mcs", vocab_size=100)
    with pytest.raises(UsageError, match=r"Unknown size `smal`\. Did you mean `small`\? Sizes: tiny, small"):
        lamina.build("msc", size="smal", vocab_size=100)

    with pytest.raises(UsageError, match="Did you mean `msc`"):
        lamina.build("MSC", vocab_size=100)


def test_a_configurations_name_suggests_how_to_build_it() -> None:
    expected = 'use lamina.build("msc", size="small", vocab_size=10124, encoder={"layers": 72})'
    with pytest.raises(UsageError, match=re.escape(expected)):
        lamina.build("msc-72", vocab_size=100)


@pytest.mark.parametrize(
    "arguments",
    [
        {"vocab_size": 0},
        {"vocab_size": (10,)},
        {"vocab_size": (10, 20, 30)},
        {"vocab_size": [10, 20]},
        {"vocab_size": "100"},
        {"vocab_size": 100, "size": 512},
        {"vocab_size": 100, "system": 123},
        {"vocab_size": 100, "source_vocab": 50},
    ],
    ids=str,
)
def test_arguments_of_the_wrong_type(arguments: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"must be|not an option"):
        lamina.build(**arguments)


@pytest.mark.parametrize("table", [ENCODERS, BRIDGES, HEADS])
def test_every_socket_is_registered_by_type(table: dict[str, Any]) -> None:
    for name, settings in table.items():
        assert settings.model_fields["type"].default == name


def test_changing_a_sockets_type_keeps_only_its_depth() -> None:
    base = {"encoder": {"type": "msc", "layers": 36, "cell": "ffn"}}
    assert override(base, {"encoder": {"type": "stack"}}) == {"encoder": {"type": "stack", "layers": 36}}
    assert override(base, {"encoder": {"fusion": "add"}})["encoder"] == {**base["encoder"], "fusion": "add"}


def test_two_vocabularies() -> None:
    model = lamina.build("surface-fusion", size="tiny", vocab_size=(90, 80))
    assert model.config.share_embeddings == "decoder"
    assert model.source_embedding.tokens.weight.shape[0] == 90
    assert model.head.weight_VD is model.target_embedding.tokens.weight
    untied = lamina.build("surface-fusion", size="tiny", vocab_size=(90, 80), share_embeddings="none")
    assert untied.head.weight_VD is not untied.target_embedding.tokens.weight
