"""A signal stops a program that trains: the run is saved, and handlers of Lamina's errors do not catch it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

import lamina


class Signal(lamina.Callback):
    def __init__(self, number: int) -> None:
        self.number = number

    def on_step(self, event: lamina.StepEvent) -> None:
        if event.step == 3:
            os.kill(os.getpid(), self.number)


@pytest.mark.parametrize(
    ("number", "raised", "said"),
    [(signal.SIGINT, KeyboardInterrupt, "Stopped at step 3 and saved; "), (signal.SIGTERM, SystemExit, "75")],
)
def test_a_signal_ends_the_program(
    number: int, raised: type[BaseException], said: str, workplace: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    with pytest.raises(raised, match=said):
        lamina.train(workplace / "recipe.yaml", workplace / "data", out, callbacks=[Signal(number)], progress=False)
    assert lamina.Run(out).checkpoints.steps() == [3]
