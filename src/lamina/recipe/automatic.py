"""A recipe from a system's name alone: settings chosen by corpus size, suitable for a CPU."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lamina.base.wording import counted
from lamina.model.config import ModelConfig
from lamina.names import option
from lamina.recipe.schema import Recipe
from lamina.systems.published import SIZES, SYSTEMS


@dataclass(frozen=True)
class Tier:
    """Settings for corpora of up to this many training pairs."""

    pairs: float
    size: str
    dropout: float
    batch_tokens: int
    accumulate: int
    lr: float
    passes: int  # epochs


# Larger corpora support larger models and need less dropout and fewer epochs; small corpora get small batches, so that
# an epoch has enough updates.
TIERS = (
    Tier(10_000, "tiny", 0.3, 1024, 1, 2e-3, 40),
    Tier(50_000, "tiny", 0.3, 2048, 1, 2e-3, 40),
    Tier(200_000, "tiny", 0.1, 4096, 1, 2e-3, 30),
    Tier(1_000_000, "small", 0.1, 4096, 2, 1e-3, 20),
    Tier(float("inf"), "base", 0.1, 4096, 4, 7e-4, 10),
)
FEWEST_STEPS, MOST_STEPS = 1_000, 100_000
VALIDATIONS = 20  # per run


def system_name(given: str | os.PathLike[str]) -> str | None:
    """The system of this name, or None if there is none or a file has that name."""
    name = os.fspath(given)
    return name if name in SYSTEMS and not Path(name).is_file() else None


def automatic_recipe(
    system: str, meta: Mapping[str, Any], processes: int = 1, max_steps: object = None
) -> dict[str, Any]:
    """A recipe for prepared data with this `meta.json`; an update is the same for any number of processes.

    If the user asks for fewer `max_steps`, warm-up and intervals shrink in proportion.
    """
    train = meta["splits"]["train"]
    tier = next(each for each in TIERS if train["pairs"] <= each.pairs)
    accumulate = max(1, tier.accumulate // processes)
    wanted = tier.passes * train["tokens"]["target"] / (tier.batch_tokens * tier.accumulate)
    steps = int(min(max(wanted, FEWEST_STEPS), MOST_STEPS))
    steps = round(steps, -2)
    if isinstance(max_steps, int):
        steps = min(max(max_steps, 1), steps)
    every = min(steps, max(steps // VALIDATIONS, FEWEST_STEPS // VALIDATIONS))
    return {
        "name": system,
        "system": system,
        "model": {"size": tier.size, "dropout": tier.dropout},
        "train": {
            "max_steps": steps,
            "batch_tokens": tier.batch_tokens * tier.accumulate // (accumulate * processes),
            "accumulate": accumulate,
            "lr": tier.lr,
            "warmup": min(4000, steps // 8),
            "save_every": every,
            "validate_every": every,
            "keep_last": 5,
            "patience": 5,
        },
    }


def describe_choice(recipe: Recipe, pairs: int, run: Path | None) -> str:
    """Describe the chosen settings, and how to change them; without a run, no recipe has been written."""
    train, size, dropout = recipe.train, describe_size(recipe.model), recipe.model.dropout
    batch = f"{train.batch_tokens:,}" + (f" × {train.accumulate}" if train.accumulate > 1 else "")
    copied = "" if run is None else f" or a copy of {run / 'recipe.yaml'}"
    every = train.validate_every if isinstance(train.validate_every, str) else counted(train.validate_every, "step")
    return (
        f"Settings for {counted(pairs, 'training pair')}: {size}, dropout {dropout:g}, "
        f"{counted(train.max_steps, 'step')} of {batch} tokens, lr {train.lr:g} after "
        f"{counted(train.warmup, 'step')} of warm-up, validation every {every}. "
        f"To change them, use {option('set', python='keyword arguments')}{copied}."
    )


def describe_size(model: ModelConfig) -> str:
    """The name of a model's size, or its width if it has none."""
    for name, size in SIZES.items():
        if all(getattr(model, key) == size[key] for key in ("d_model", "ffn_size", "heads")):
            return f"size {name}"
    return f"d_model {model.d_model}"
