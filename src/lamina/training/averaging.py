"""Checkpoint averaging."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from lamina.errors import DataError, UsageError
from lamina.names import option
from lamina.store.checkpoints import Checkpoints
from lamina.store.model_folder import assign_weights, load_model_folder, read_weights, write_model_folder


def average(run: Path, *, last: int | None = None, steps: Sequence[int] | None = None) -> tuple[Path, list[int]]:
    """Average the last K checkpoints or the given steps into `RUN/averaged`; return the folder and the steps."""
    checkpoints = Checkpoints(run / "checkpoints")
    chosen = choose_steps(checkpoints, last, steps)
    for step in chosen:
        damage = checkpoints.damage(step)
        if damage is not None:
            raise DataError(f"{damage}; omit step {step}.")
    loaded = load_model_folder(checkpoints.path(chosen[-1]))
    total: dict[str, torch.Tensor] = {}
    for step in chosen:
        for name, weight in read_weights(checkpoints.path(step)).items():
            total[name] = total[name] + weight.double() if name in total else weight.double()
    mean = {name: (weight / len(chosen)).float() for name, weight in total.items()}
    assign_weights(loaded.model, mean, str(run))
    out = run / "averaged"
    origin = f"The average of steps {', '.join(map(str, chosen))} of the run `{run.name}`."
    write_model_folder(out, loaded.model, loaded.text, origin, loaded.decode)
    return out, chosen


def choose_steps(checkpoints: Checkpoints, last: int | None, steps: Sequence[int] | None) -> list[int]:
    """Choose the checkpoints to average; exactly one of `last` and `steps` must be given."""
    if (last is None) == (steps is None):
        raise UsageError(f"Give either {option('last')} or {option('steps')}.")
    if steps is not None and not steps:
        raise UsageError(f"{option('steps')} must name at least one checkpoint.")
    saved = checkpoints.steps()
    if not saved:
        raise DataError(f"{checkpoints.folder.parent}: is not a run with checkpoints.")
    if last is not None:
        if last > len(saved):
            raise UsageError(
                f"{option('last')} must be at most {len(saved)}, the number of checkpoints, but is {last} instead."
            )
        return saved[-last:]
    missing = [step for step in steps or () if step not in saved]
    if missing:
        raise UsageError(f"No checkpoint at step {missing[0]}; available: {', '.join(map(str, saved))}.")
    return sorted(set(steps or ()))
