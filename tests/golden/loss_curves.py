"""Five updates of every published system from a fixed seed; `python tests/golden/loss_curves.py` records them again.

A refactoring must not change `loss_curves.json`.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch

from lamina import build
from lamina.systems.published import SYSTEMS

RECORDED = Path(__file__).with_name("loss_curves.json")
VOCABULARY, SENTENCES, LENGTH, UPDATES = 31, 6, 9, 5


def loss_curve(system: str) -> list[float]:
    """Label-smoothed loss per token before each of five Adam updates, with dropout."""
    torch.manual_seed(1)
    model = build(system, size="tiny", vocab_size=VOCABULARY, d_model=32, ffn_size=48, dropout=0.1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(UPDATES):
        source, target = torch.randint(4, VOCABULARY, (2, SENTENCES, LENGTH))
        source[:, -1], target[:, -1] = model.eos_id, model.eos_id
        prefix = torch.cat([torch.full((SENTENCES, 1), model.start_id), target[:, :-1]], dim=1)
        loss = model(source, prefix, target, smoothing=0.1).total / target.numel()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


if __name__ == "__main__":
    RECORDED.write_text(json.dumps({system: loss_curve(system) for system in SYSTEMS}, indent=1) + "\n")
