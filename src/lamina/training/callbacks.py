"""User callbacks invoked during training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from lamina.errors import UsageError
from lamina.training.reporters import NullReporter


class StopTraining(Exception):
    """Raise this in a callback to end training early; the run is saved and its model written as after the last step."""


@dataclass(frozen=True)
class StepEvent:
    """State after an update; `loss` and `tokens_per_second` are means since the last log line."""

    step: int
    max_steps: int
    loss: float  # per target token, with label smoothing
    tokens_per_second: float


@dataclass(frozen=True)
class ValidationEvent:
    """Results of a validation."""

    step: int
    loss: float  # per target token, with label smoothing
    nll: float  # per target token, without label smoothing
    perplexity: float  # e^nll
    normalised_perplexity: float  # comparable between systems; differs only if probabilities do not sum to 1
    bleu: float | None  # None unless `bleu_sentences` is set
    best: bool  # whether it is the best so far


@dataclass(frozen=True)
class SaveEvent:
    """A checkpoint that was written."""

    step: int
    folder: Path  # a model folder, for `lamina.load`
    best: bool  # whether it has the best validation so far


class Callback:
    """Base class of callbacks: override the methods you need.

    Example:
        >>> class Losses(lamina.Callback):
        ...     def __init__(self):
        ...         self.seen = []
        ...     def on_validation(self, event):
        ...         self.seen.append(event.loss)
        ...         if event.loss < 0.5:
        ...             raise lamina.StopTraining
        >>> losses = Losses()
        >>> run = lamina.train("recipe.yaml", "data", "runs/watched", callbacks=[losses], max_steps=4, warmup=2)
        >>> len(losses.seen)
        1
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name in vars(cls):
            if name.startswith("on_") and not hasattr(Callback, name):
                events = [each for each in vars(Callback) if each.startswith("on_")]
                raise UsageError(f"{cls.__name__}.{name} would never be called; the events are {', '.join(events)}.")

    def on_step(self, event: StepEvent) -> None:
        """Called after every update."""

    def on_validation(self, event: ValidationEvent) -> None:
        """Called after every validation."""

    def on_save(self, event: SaveEvent) -> None:
        """Called after every checkpoint."""


def check_callbacks(given: Sequence[object]) -> list[Callback]:
    """Return the callbacks; raise unless all are instances of `Callback`."""
    for each in given:
        if not isinstance(each, Callback):
            hint = f"; pass an instance, {each.__name__}()" if isinstance(each, type) else ""
            raise UsageError(f"callbacks must be instances of lamina.Callback, but one is {each!r} instead{hint}.")
    return [each for each in given if isinstance(each, Callback)]


class CallbackReporter(NullReporter):
    """Forwards the trainer's reports to callbacks."""

    def __init__(self, callbacks: Sequence[Callback]) -> None:
        self.callbacks = callbacks

    def progress(self, step: int, total: int, loss: float, speed: float) -> None:
        event = StepEvent(step, total, loss, speed)
        self._call(lambda each: each.on_step(event))

    def record(self, record: dict[str, Any]) -> None:
        if record["kind"] == "valid":
            record = {"normalised_perplexity": record["perplexity"], "bleu": None, **record}
            event = ValidationEvent(**{field.name: record[field.name] for field in fields(ValidationEvent)})
            self._call(lambda each: each.on_validation(event))

    def saved(self, step: int, folder: Path, best: bool) -> None:
        event = SaveEvent(step, folder, best)
        self._call(lambda each: each.on_save(event))

    def _call(self, function: Callable[[Callback], None]) -> None:
        for each in self.callbacks:
            try:
                function(each)
            except StopTraining:
                self.stopped = True
