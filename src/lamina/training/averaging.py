"""The mean of several checkpoints' weights, as a model folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from lamina.errors import DataError, UsageError
from lamina.store.checkpoints import Checkpoints
from lamina.store.model_folder import assign_weights, load_model_folder, read_weights, write_model_folder


def average(run: Path, *, last: int | None = None, steps: Sequence[int] | None = None) -> tuple[Path, list[int]]:
    """Write `RUN/averaged` from the last K checkpoints or from these steps; returns it and the steps."""
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
    """Which checkpoints to average; exactly one of the two ways must be given."""
    if (last is None) == (steps is None):
        raise UsageError("Give either --last K or --steps a,b,c.")
    there = checkpoints.steps()
    if not there:
        raise DataError(f"{checkpoints.folder}: contains no checkpoints; is it a run folder?")
    if last is not None:
        if last > len(there):
            raise UsageError(f"--last must be at most {len(there)}, the number of checkpoints, but is {last} instead.")
        return there[-last:]
    missing = [step for step in steps or () if step not in there]
    if missing:
        raise UsageError(f"No checkpoint of step {missing[0]}; available: {', '.join(map(str, there))}.")
    return sorted(set(steps or ()))
