"""`torchrun` with several agents, as on several machines: the same losses, and clear errors."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from cli.test_train import metrics, train_ranks

pytestmark = pytest.mark.slow
STEPS = ["train.max_steps=20", "train.warmup=5", "train.log_every=1", "train.save_every=4", "train.validate_every=10"]


def settings(*options: str) -> list[str]:
    return [part for option in (*STEPS, *options) for part in ("--set", option)]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start_agents(data: Path, out: Path, *options: str, agents: int = 2) -> list[subprocess.Popen[str]]:
    """Start one agent per machine, with c10d rendezvous and one process each."""
    port = free_port()
    launcher = [sys.executable, "-m", "torch.distributed.run", f"--nnodes={agents}", "--nproc-per-node=1"]
    meeting = ["--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}", "--rdzv-id=test", "--max-restarts=0"]
    command = ["-m", "lamina", "train", data / "recipe.yaml", "--data", data / "data", "--out", out, *options]
    whole = [*launcher, *meeting, *map(str, command)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return [
        subprocess.Popen(whole, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment,
                         start_new_session=True)
        for _ in range(agents)
    ]  # fmt: skip


def finish(agents: list[subprocess.Popen[str]]) -> list[str]:
    said = [agent.communicate(timeout=240)[1] for agent in agents]
    assert [agent.returncode for agent in agents] == [0] * len(agents), said
    return said


def losses(out: Path) -> list[dict[str, Any]]:
    return [record for record in metrics(out) if record["kind"] in ("train", "valid")]


def test_two_agents_equal_one_agent_with_two_ranks(data: Path, tmp_path: Path) -> None:
    one = train_ranks(data, tmp_path / "one", *settings(), ranks=2)
    assert one.returncode == 0, one.stderr
    finish(start_agents(data, tmp_path / "two", *settings()))
    assert losses(tmp_path / "two") == losses(tmp_path / "one")
    weights = [(tmp_path / name / "model" / "model.safetensors").read_bytes() for name in ("one", "two")]
    assert weights[0] == weights[1]


def test_a_lost_machine_stops_the_others_and_the_same_command_resumes(data: Path, tmp_path: Path) -> None:
    assert train_ranks(data, tmp_path / "whole", *settings("train.max_steps=60"), ranks=2).returncode == 0
    agents = start_agents(data, tmp_path / "parts", *settings("train.max_steps=60"))
    deadline = time.monotonic() + 120
    while not (tmp_path / "parts" / "checkpoints" / "last.txt").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(random.Random(1).random())
    killed, other = agents
    children = subprocess.check_output(["pgrep", "-P", str(killed.pid)], text=True).split()
    for number in [killed.pid, *map(int, children)]:
        os.kill(number, signal.SIGKILL)
    said = other.communicate(timeout=120)[1]
    killed.communicate()
    assert other.returncode != 0
    assert "lost its connection to the others" in said
    assert "Rerun the same command on every machine to resume" in said
    finish(start_agents(data, tmp_path / "parts", *settings("train.max_steps=60")))
    assert losses(tmp_path / "parts") == losses(tmp_path / "whole")


@pytest.mark.parametrize(("before", "after"), [(2, 1), (1, 2)])
def test_another_number_of_ranks_needs_the_suggested_settings_to_resume(
    before: int, after: int, data: Path, tmp_path: Path
) -> None:
    """Without dropout no random numbers are drawn, so the run equals the one that never changed ranks."""
    sizes = {1: ["train.accumulate=2"], 2: ["train.accumulate=1"]}
    plain = ["model.dropout=0.0", "train.batch_tokens=128"]

    def run(out: Path, ranks: int, *options: str) -> subprocess.CompletedProcess[str]:
        return train_ranks(data, out, *settings(*plain, *options), ranks=ranks)

    assert run(tmp_path / "whole", before, *sizes[before]).returncode == 0
    assert run(tmp_path / "parts", before, *sizes[before], "train.max_steps=10").returncode == 0
    refused = run(tmp_path / "parts", after, *sizes[before])
    assert refused.returncode != 0
    assert "its updates have 256 target tokens" in refused.stderr
    assert f"Resume with {sizes[after][0]}." in refused.stderr
    resumed = run(tmp_path / "parts", after, *sizes[after])
    assert resumed.returncode == 0, resumed.stderr
    assert "Resumed from step 10." in resumed.stderr
    for one, other in zip(losses(tmp_path / "parts"), losses(tmp_path / "whole"), strict=True):
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-4)


def test_a_signal_to_one_rank_stops_all(data: Path, tmp_path: Path) -> None:
    """Ranks stop together, at a step where they synchronise."""
    endless = settings("train.max_steps=100000", "train.save_every=100000", "train.validate_every=100000")
    agents = start_agents(data, tmp_path / "run", *endless)
    records = tmp_path / "run" / "metrics.jsonl"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not (records.exists() and records.stat().st_size):
        time.sleep(0.2)
    workers = subprocess.check_output(["pgrep", "-P", str(agents[1].pid)], text=True).split()
    os.kill(int(workers[-1]), signal.SIGTERM)
    said = [agent.communicate(timeout=120)[1] for agent in agents]
    saved = [int(path.name[5:]) for path in (tmp_path / "run" / "checkpoints").glob("step_*")]
    assert any("and saved" in text for text in said), said
    assert len(saved) == 1
    assert saved[0] % 10 == 0
