"""Resuming from a checkpoint, possibly on other devices, and initialisation from another model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from lamina.base.devices import Precision, choose_precision
from lamina.corpus.batches import Batches
from lamina.corpus.prepared import PreparedData
from lamina.errors import DataError, UsageError
from lamina.model.seq2seq import Seq2Seq
from lamina.names import option
from lamina.recipe.schema import TrainSettings
from lamina.store.loading import find_model_folder
from lamina.store.model_folder import LoadedModel, assign_weights, load_model_folder
from lamina.store.run import Run
from lamina.training.distributed import Ranks
from lamina.training.statistics import Window


def find_checkpoint(run: Run, say: Callable[[str], None]) -> int | None:
    """Find the newest intact checkpoint; if there is none, the run's metrics are cleared."""
    run.checkpoints.clear_partial()
    for step, damage in run.checkpoints.newest_first():
        if damage is None:
            return step
        say(f"{damage}; trying the previous checkpoint.")
    if run.checkpoints.steps() or (run.folder / "model").exists():
        raise DataError(
            f"{run.folder}: has no usable checkpoint to resume from. Restore "
            f"{run.checkpoints.folder}, or choose another run folder to start from the beginning."
        )
    run.metrics.write_bytes(b"")
    return None


def check_same_update(state: dict[str, Any], train: TrainSettings, batches: Batches, ranks: Ranks, run: Path) -> None:
    """Raise if the update size, and thus the pairs of each update, changed; the number of ranks may change."""
    before = len(state["ranks"])
    tokens = state.get("update_tokens", train.batch_tokens * train.accumulate * before)
    if batches.capacity == tokens:
        return
    raise UsageError(
        f"{run}: its updates have {tokens:,} target tokens (on {before} process{'es' if before > 1 else ''}), but "
        f"train.batch_tokens {train.batch_tokens:,} × train.accumulate {train.accumulate} × {ranks.count} "
        f"process{'es' if ranks.count > 1 else ''} is {batches.capacity:,}. {advice(tokens, train, ranks)}"
    )


def advice(tokens: int, train: TrainSettings, ranks: Ranks) -> str:
    """Suggest settings that give the same update size with this number of ranks."""
    share = tokens // ranks.count
    if share * ranks.count != tokens:
        return f"Use a number of processes that divides {tokens:,}."
    if share % train.batch_tokens == 0:
        return f"Resume with train.accumulate={share // train.batch_tokens}."
    return f"Resume with train.batch_tokens={share} and train.accumulate=1."


def resumed_precision(
    state: dict[str, Any], train: TrainSettings, device: torch.device
) -> tuple[Precision, str | None]:
    """Return the precision to resume in, the run's own if the device supports it, and a note on any change."""
    here = choose_precision(train.precision, device)
    before: Precision = state.get("precision", here)
    if before in ("fp32", here):
        return before, None if before == here else f"Precision stays {before}, as when the run was started."
    return here, f"The run was trained in {before}, which this device does not support; continuing in {here}."


def restore_random(state: dict[str, Any], seed: int, ranks: Ranks) -> None:
    """Restore the rank's random state; if the number of ranks changed, seed a fresh one."""
    if len(state["ranks"]) != ranks.count:
        torch.manual_seed((seed * 1_000_003 + ranks.rank) * 1_000_003 + state["step"])
        return
    own = state["ranks"][ranks.rank]
    torch.set_rng_state(own["random"])
    if "cuda_random" in own and ranks.device.type == "cuda":
        torch.cuda.set_rng_state(own["cuda_random"], ranks.device)


def resumed_window(state: dict[str, Any], ranks: Ranks) -> Window:
    """Restore the sums since the last log line; if the number of ranks changed, the first rank gets them all."""
    windows = [Window(**{"weight": own["window"]["tokens"], **own["window"]}) for own in state["ranks"]]
    if len(windows) == ranks.count:
        return windows[ranks.rank]
    return Window.sum(windows) if ranks.first else Window()


def start_from(folder: Path, model: Seq2Seq, data: PreparedData) -> None:
    """Initialise the weights from another model with the same vocabularies."""
    folder, loaded = load_for(folder, data)
    if model.config.encoder.type == "grown" and loaded.model.config.encoder.type != "grown":
        raise UsageError(
            f"To grow a deeper model around {folder}, use {option('grow_from')}, not {option('init_from')}."
        )
    assign_weights(model, dict(loaded.model.named_parameters()), str(folder))


def load_for(folder: Path, data: PreparedData) -> tuple[Path, LoadedModel]:
    """Load a trained model and return it with its folder; raise if its vocabularies differ from the data's."""
    folder = find_model_folder(folder)
    loaded = load_model_folder(folder)
    for side in ("source", "target"):
        if getattr(loaded.text, side).vocabulary != getattr(data.text, side).vocabulary:
            raise DataError(
                f"{folder}: its {side} vocabulary differs from that of {data.folder}. Prepare the data with "
                f"{option('text_from', str(folder))}."
            )
    return folder, loaded
