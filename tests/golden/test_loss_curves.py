"""Training is unchanged: five losses of every system, as recorded by `loss_curves.py`."""

from __future__ import annotations

import json

import pytest

from golden.loss_curves import RECORDED, loss_curve
from lamina.systems.published import SYSTEMS

CURVES = json.loads(RECORDED.read_text())


def test_every_system_is_recorded() -> None:
    assert set(CURVES) == set(SYSTEMS), "run `python tests/golden/loss_curves.py`"


@pytest.mark.parametrize("system", SYSTEMS)
def test_loss_curve(system: str) -> None:
    assert loss_curve(system) == pytest.approx(CURVES[system], rel=1e-5)
