"""Learning rate schedules."""

from __future__ import annotations

import math

from lamina.recipe.schema import TrainSettings

FLOOR = 1e-7  # initial learning rate of the warm-up


def learning_rate(train: TrainSettings, step: int) -> float:
    """Learning rate of step 1, 2, …: linear warm-up from 1e-7 to `lr`, then the schedule."""
    if step <= train.warmup:
        return FLOOR + (train.lr - FLOOR) * step / train.warmup
    left = (train.max_steps - step) / max(1, train.max_steps - train.warmup)
    factors = {
        "inverse_sqrt": math.sqrt(max(1, train.warmup) / step),
        "linear": max(0.0, left),
        "cosine": 0.5 * (1 + math.cos(math.pi * (1 - max(0.0, left)))),
        "constant": 1.0,
    }
    return train.lr * factors[train.schedule]
