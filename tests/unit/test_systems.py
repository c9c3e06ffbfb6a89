"""Published systems build at every size and have the papers' parameter counts."""

from __future__ import annotations

import pytest

from lamina.systems.build import count_parameters, resolve
from lamina.systems.published import SIZES, SYSTEMS, find_configuration

PUBLISHED = {  # millions: Wei et al. 2020, Table 2, and the Multi30k anchor
    "transformer-small": 10.5,
    "msc-6": 15.6,
    "msc-36": 43.3,
    "msc-54": 60.0,
    "msc-72": 76.6,
    "transformer-post-tiny": 2.57,
}


@pytest.mark.parametrize(
    ("system", "norm", "init", "encoder", "bridge", "head", "attention", "wiring"),
    [
        ("transformer", "pre", "xavier", "stack", "top", "softmax", "self", "residual"),
        ("transformer-post", "post", "xavier", "stack", "top", "softmax", "self", "residual"),
        ("transparent", "pre", "xavier", "stack", "transparent", "softmax", "self", "residual"),
        ("fine-grained", "post", "xavier", "stack", "fine_grained", "softmax", "self", "residual"),
        ("layerwise", "post", "xavier", "stack", "layerwise", "softmax", "self", "residual"),
        ("aggregation", "post", "xavier", "stack", "aggregation", "softmax", "self", "residual"),
        ("coordination", "post", "xavier", "stack", "layerwise", "softmax", "mixed", "residual"),
        ("dlcl", "pre", "xavier", "dlcl", "top", "softmax", "self", "dlcl"),
        ("block-scale", "pre", "xavier", "stack", "blocks", "softmax", "self", "residual"),
        ("msc", "pre", "xavier", "msc", "collaborative", "softmax", "self", "residual"),
        ("surface-fusion", "post", "xavier", "stack", "top", "surface", "self", "residual"),
        ("pointer-generator", "pre", "xavier", "stack", "top", "pointer", "self", "residual"),
        ("hierarchical", "pre", "xavier", "hierarchical", "top", "softmax", "self", "residual"),
        ("depth-growing", "post", "xavier", "grown", "grown", "softmax", "self", "residual"),
        ("average-attention", "post", "xavier", "stack", "top", "softmax", "average", "residual"),
        ("merged-attention", "post", "ds", "stack", "top", "softmax", "merged", "residual"),
        ("msc-surface", "pre", "xavier", "msc", "collaborative", "surface", "self", "residual"),
    ],
)
def test_parts_of_each_system(
    system: str, norm: str, init: str, encoder: str, bridge: str, head: str, attention: str, wiring: str
) -> None:
    config = resolve(system, "small", 1000, {})
    assert (config.norm, config.init) == (norm, init)
    assert (config.encoder.type, config.bridge.type, config.head.type) == (encoder, bridge, head)
    assert (config.decoder.attention, config.decoder.wiring) == (attention, wiring)
    assert config.decoder.tie_encoder == (system == "coordination")


def test_published_defaults() -> None:
    mixing = resolve("fine-grained", "base", 1000, {}).bridge
    assert (mixing.dropconnect, mixing.weight_dropout, mixing.embedding, mixing.embedding_norm) == (
        0.3,
        0.0,
        "surface",
        True,
    )
    head = resolve("surface-fusion", "base", 1000, {}).head
    assert (head.mode, head.gate, head.ffn, head.linear, head.reader, head.reader_heads) == (
        "hard",
        0.8,
        True,
        False,
        "attention",
        1,
    )
    assert resolve("transparent", "base", 1000, {}).bridge.embedding == "input"


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("system", SYSTEMS)
def test_every_system_builds_at_every_size(system: str, size: str) -> None:
    assert count_parameters(resolve(system, size, 1000, {})) > 0


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_parameter_counts(name: str) -> None:
    system, configuration = find_configuration(name)
    own = {"encoder": {"layers": configuration.encoder_layers}}
    counted = count_parameters(resolve(system, configuration.size, configuration.vocab_size, own))
    assert counted == pytest.approx(PUBLISHED[name] * 1e6, rel=0.005)
    assert float(configuration.published_parameters.removesuffix("M")) == PUBLISHED[name]


@pytest.mark.parametrize(("size", "without_embeddings"), [("small", 7.91e6), ("base", 44.14e6), ("big", 176.36e6)])
def test_parameters_without_embeddings(size: str, without_embeddings: float) -> None:
    embeddings = 1000 * SIZES[size]["d_model"]
    assert count_parameters(resolve("transformer", size, 1000, {})) - embeddings == pytest.approx(
        without_embeddings, rel=0.001
    )
