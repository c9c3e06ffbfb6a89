from __future__ import annotations

from functools import partial

import pytest
import torch

from gpu.ghost import GhostGpu
from lamina.bench import gpu as trials
from lamina.systems.build import build
from support import run_lamina


@pytest.mark.parametrize("systems", [trials.SYSTEMS[:1], pytest.param(trials.SYSTEMS, marks=pytest.mark.slow)])
def test_every_trial_of_the_doctor_agrees_with_the_cpu(
    systems: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trials, "SYSTEMS", systems)
    monkeypatch.setattr(trials, "SENTENCES", 4)
    monkeypatch.setattr(trials, "VOCABULARY", 60)
    sizes = {"d_model": 16, "ffn_size": 32, "heads": 2, "encoder": {"layers": 2}, "decoder": {"layers": 2}}
    monkeypatch.setattr(trials, "build", partial(build, **sizes))
    with GhostGpu():
        found = list(trials.try_gpu(torch.device("cuda", 0), steps=2))
    assert [(each.system, each.precision) for each in found] == [
        (system, precision) for system in systems for precision in ("fp32", "bf16", "fp16")
    ]
    assert [each.verdict for each in found] == ["ok"] * 3 * len(systems)


def test_a_missing_gpu_is_reported() -> None:
    result = run_lamina("doctor", "--gpu")
    assert result.returncode == 1
    assert "no GPU found" in result.stdout
