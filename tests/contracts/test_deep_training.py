"""Very deep encoders train: 50 steps of a copy task, with a gradient in every layer."""

from __future__ import annotations

import pytest
import torch

from lamina.model.seq2seq import Seq2Seq
from lamina.systems.build import build
from lamina.training.objective import encoder_gradient_norms

VOCABULARY, SYMBOLS = 14, 10


def copy_batch(generator: torch.Generator) -> tuple[torch.Tensor, ...]:
    words = torch.randint(4, 4 + SYMBOLS, (16, 5), generator=generator)
    source = torch.nn.functional.pad(words, (0, 1), value=2)
    return source, torch.nn.functional.pad(words, (1, 0), value=0), source


def norms_by_name(model: Seq2Seq) -> list[float]:
    """Gradient norm per encoder layer, derived from parameter names."""
    squares: dict[int, float] = {}
    for name, parameter in model.named_parameters():
        if name.startswith("encoder.layers."):
            layer = int(name.split(".")[2])
            squares[layer] = squares.get(layer, 0.0) + float(parameter.grad.square().sum())
    return [squares[layer] ** 0.5 for layer in sorted(squares)]


@pytest.mark.parametrize(
    ("system", "layers"),
    [
        pytest.param("msc", 12, marks=pytest.mark.slow),
        pytest.param("msc", 6, marks=pytest.mark.slow),
        pytest.param("msc", 72, marks=pytest.mark.slow),
        pytest.param("transformer", 36, marks=pytest.mark.slow),
    ],
)
def test_deep_encoders_train(system: str, layers: int) -> None:
    torch.manual_seed(1)
    model = build(
        system,
        size="tiny",
        vocab_size=VOCABULARY,
        d_model=32,
        ffn_size=64,
        heads=2,
        encoder={"layers": layers},
        decoder={"layers": 6},
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, betas=(0.9, 0.98))
    generator = torch.Generator().manual_seed(2)
    losses = []
    for _ in range(50):
        loss = model(*copy_batch(generator), 0.1).mean()
        optimizer.zero_grad()
        loss.backward()
        losses.append(loss.item())
        norms = encoder_gradient_norms(model)
        assert norms == pytest.approx(norms_by_name(model), rel=1e-5)
        assert len(norms) == layers
        assert all(0 < norm < float("inf") for norm in norms)
        optimizer.step()
    assert all(map(torch.isfinite, torch.tensor(losses)))
    first, last = sum(losses[:5]) / 5, sum(losses[-5:]) / 5
    assert last < 0.8 * first
