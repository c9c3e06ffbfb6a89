"""The published systems: they build at every size, and the papers' parameter counts come out."""

from __future__ import annotations

import pytest

from lamina.model.build import count_parameters, resolve
from lamina.systems import SIZES, SYSTEMS, find_configuration

PUBLISHED = {  # millions: Wei et al. 2020, Table 2, and the Multi30k anchor
    "transformer-small": 10.5,
    "msc-6": 15.6,
    "msc-36": 43.3,
    "msc-54": 60.0,
    "msc-72": 76.6,
    "transformer-post-tiny": 2.57,
}


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
