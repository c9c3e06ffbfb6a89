"""Callbacks receive every step, validation and checkpoint event, and can stop training."""

from __future__ import annotations

from pathlib import Path

import lamina


class Recorder(lamina.Callback):
    def __init__(self, stop_at: int = 0) -> None:
        self.steps: list[lamina.StepEvent] = []
        self.validations: list[lamina.ValidationEvent] = []
        self.saves: list[lamina.SaveEvent] = []
        self.stop_at = stop_at

    def on_step(self, event: lamina.StepEvent) -> None:
        self.steps.append(event)
        if event.step == self.stop_at:
            raise lamina.StopTraining

    def on_validation(self, event: lamina.ValidationEvent) -> None:
        self.validations.append(event)

    def on_save(self, event: lamina.SaveEvent) -> None:
        self.saves.append(event)


def train(workplace: Path, out: Path, seen: Recorder, **own: int) -> lamina.Run:
    options = {"max_steps": 6, "warmup": 2, "save_every": 2, "validate_every": 3, **own}
    return lamina.train(workplace / "recipe.yaml", workplace / "data", out, callbacks=[seen], progress=False, **options)


def test_callbacks_receive_every_event(workplace: Path, tmp_path: Path) -> None:
    seen = Recorder()
    run = train(workplace, tmp_path / "run", seen)
    assert [event.step for event in seen.steps] == [1, 2, 3, 4, 5, 6]
    assert [(event.step, event.best) for event in seen.validations] == [(3, True), (6, True)]
    assert [event.step for event in seen.saves] == [2, 3, 4, 6]
    assert lamina.load(seen.saves[0].folder).text.source.language == "en"
    last = run.history[-1]
    assert seen.validations[-1].loss == last["loss"]
    assert seen.validations[-1].normalised_perplexity == last.get("normalised_perplexity", last["perplexity"])


def test_stopping_leaves_a_model(workplace: Path, tmp_path: Path) -> None:
    run = train(workplace, tmp_path / "run", Recorder(stop_at=4), validate_every=6, log_every=6, gradients_every=1)
    assert run.checkpoints.steps()[-1] == 4
    assert [each["step"] for each in run.history if each["kind"] == "gradients"] == [1, 2, 3, 4]
    assert (run.folder / "model" / "config.json").is_file()
