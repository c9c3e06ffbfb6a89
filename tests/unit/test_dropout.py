"""Dropout acts at every site, in training only, and keeps the mean."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from lamina.model.layers.dropout import keep_mask
from support import make_batch, small

SURFACE = {"head": {"type": "surface"}}


def set_rate(module: Any, rate: float) -> None:
    if isinstance(module, nn.Dropout):
        module.p = rate
    elif isinstance(module.dropout, float):
        module.dropout = rate


def sites() -> list[tuple[str, dict[str, Any]]]:
    plain = [
        "source_embedding",
        "target_embedding.dropout",
        "encoder.layers.0.attention",
        "encoder.layers.1.feed_forward.dropout",
    ]
    plain += [f"encoder.layers.1.{part}_residual.dropout" for part in ("attention", "feed_forward")]
    plain += [f"decoder.layers.0.{part}_residual.dropout" for part in ("target", "cross", "feed_forward")]
    plain += ["decoder.layers.1.target_attention.attention", "decoder.layers.1.cross_attention.streams.0"]
    plain += ["decoder.layers.0.feed_forward.dropout"]
    surface = ["head.dropout", "head.reader.attention", "head.feed_forward.dropout"]
    return [
        *((site, {}) for site in plain),
        *((site, SURFACE) for site in surface),
        ("bridge.dropout", {"bridge": {"type": "transparent"}}),
        ("encoder.layers.0.context_attention", {"encoder": {"type": "msc"}, "bridge": {"type": "collaborative"}}),
        (
            "decoder.layers.0.cross_attention.streams.1",
            {"encoder": {"type": "msc"}, "bridge": {"type": "collaborative"}},
        ),
    ]


@pytest.mark.parametrize(("site", "own"), sites(), ids=lambda value: value if isinstance(value, str) else "")
def test_a_site_drops_in_training_only(site: str, own: dict[str, Any]) -> None:
    model, batch = small(**own), make_batch()
    module = dict(model.named_modules())[site]
    set_rate(module, 0.5)

    def result() -> torch.Tensor:
        with torch.no_grad():
            return model.log_probs(batch.source_BS, batch.prefix_BT)

    assert torch.equal(result(), result())
    model.train()
    assert not torch.equal(result(), result())
    set_rate(module, 0.0)
    assert torch.equal(result(), result())


def test_rates_reach_their_modules() -> None:
    """The three rates of a configuration, in every module with dropout."""
    own = {"encoder": {"type": "msc"}, "bridge": {"type": "collaborative"}, **SURFACE}
    model = small(**{**own, "dropout": 0.3, "attention_dropout": 0.2, "activation_dropout": 0.1})
    expected = {"attention": 0.2, "feed_forward": 0.1}
    for name, module in model.named_modules():
        if type(module).__name__ == "Attention":
            assert module.dropout == expected["attention"], name
        elif isinstance(module, nn.Dropout):
            inner = name.endswith("feed_forward.dropout")
            assert module.p == (expected["feed_forward"] if inner else 0.3), name
    assert model.source_embedding.dropout == 0.3


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5, 0.999])
@pytest.mark.parametrize("shape", [(1000, 333), (7,), (3, 5, 1), (0, 4)])
def test_masks_keep_the_rate_and_the_mean(rate: float, shape: tuple[int, ...]) -> None:
    torch.manual_seed(3)
    mask = keep_mask(torch.empty(shape), rate)
    assert mask.shape == shape
    assert all(value == 0 or value == pytest.approx(1 / (1 - rate), rel=0.01) for value in mask.unique().tolist())
    if mask.numel() > 1000:
        assert float((mask == 0).float().mean()) == pytest.approx(rate, abs=0.003)
        assert float(mask.mean()) == pytest.approx(1, abs=0.06)


def test_masks_follow_the_generator() -> None:
    draws = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        draws.append(keep_mask(torch.empty(64), 0.5))
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])


def test_the_source_mask_keeps_the_mean() -> None:
    model = small(dropout=0.4)
    tokens = torch.full((200, 60), 7)
    valid = torch.ones_like(tokens, dtype=torch.bool)
    exact = model.source_embedding(tokens, valid)
    dropped = model.train().source_embedding(tokens, valid)
    for name in ("embedded_BSD", "surface_BSD"):
        torch.testing.assert_close(
            getattr(dropped, name).mean(dim=0), getattr(exact, name).mean(dim=0), rtol=0.5, atol=0.5
        )
        ratio = float((getattr(dropped, name).mean() / getattr(exact, name).mean()).detach())
        assert ratio == pytest.approx(1, abs=0.1)
