"""Values that modules pass to each other."""

from __future__ import annotations

import torch

from lamina.model.states import Loss


def test_a_differentiable_loss_can_be_printed() -> None:
    loss = Loss(torch.tensor(6.0, requires_grad=True), torch.zeros(1, 4), 4)
    assert repr(loss) == "Loss(mean=1.5000, total=6.0000, tokens=4)"
