"""`lamina train` on a simulated GPU: synchronisation, resuming, divergence, precision, memory, second rank."""

from __future__ import annotations

import json
import re
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

from cli.conftest import RECIPE
from gpu.ghost import GhostGpu, GhostTensor
from lamina.base.devices import choose_device, choose_precision
from lamina.corpus.batches import Position
from lamina.corpus.prepared import PreparedData
from lamina.demo.grammar import write_demo
from lamina.errors import LaminaError, UsageError
from lamina.recipe.loader import load_recipe_for
from lamina.store.run import Run
from lamina.training import distributed
from lamina.training.distributed import Ranks, join_ranks
from lamina.training.prefetch import load_update
from lamina.training.reporters import NullReporter
from lamina.training.trainer import Trainer
from support import Finished, run_lamina

GPU = torch.device("cuda", 0)


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gpu")
    write_demo(folder, train=120, valid=12, test=1)
    files = [str(folder / f"{split}.{language}") for split in ("train", "valid") for language in ("en", "de")]
    result = run_lamina(
        "prepare", "--train", *files[:2], "--valid", *files[2:], "--vocab-size", "500", "--out", folder / "data"
    )
    assert result.returncode == 0, result.stderr
    (folder / "recipe.yaml").write_text(RECIPE)
    return folder


def train(data: Path, out: Path, *options: str, device: str = "cuda") -> Finished:
    settings = [part for option in options for part in ("--set", option)]
    return run_lamina(
        "train", data / "recipe.yaml", "--data", data / "data", "--out", out, "--device", device, *settings
    )


def trainer(data: Path, out: Path, *overrides: str, ranks: Ranks | None = None) -> Trainer:
    prepared = PreparedData(data / "data")
    recipe = load_recipe_for(prepared, data / "recipe.yaml", list(overrides))
    out.mkdir(parents=True, exist_ok=True)
    made = Trainer(recipe, prepared, Run(out), ranks or Ranks(0, 1, GPU), NullReporter())
    made.model.train()
    return made


def records(out: Path, kind: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if line["kind"] == kind]


@pytest.mark.parametrize(
    ("system", "precision", "option"),
    [
        ("transformer", "fp32", "train.accumulate=2"),
        ("surface-fusion", "bf16", "train.source_word_dropout=0.1"),
        ("msc", "fp16", "train.optimizer=adamw"),
        ("msc", "bf16", "train.gradient_checkpointing=true"),
        ("pointer-generator", "bf16", "train.edit_weight=3.0"),
        ("hierarchical", "fp16", "train.label_smoothing=0.0"),
    ],
)
def test_an_update_does_not_synchronise(system: str, precision: str, option: str, data: Path, tmp_path: Path) -> None:
    options = [f"system={system}", f"train.precision={precision}", "train.clip_norm=1.0", "train.ema=0.9", option]
    with GhostGpu() as gpu:
        own = trainer(data, tmp_path, *options, "train.encoder_l2=1e-6", "train.gradients_every=1")
        updates = [load_update(update, GPU) for update, _ in islice(own.batches.iterate(Position()), 3)]
        own.update(updates[0])  # scaler and optimizer create their state
        gpu.clear()
        for update in updates[1:]:
            own.update(update)
        assert not gpu.waits
        assert not gpu.to_host
        assert not gpu.to_device  # batches come from pinned memory
        copies = sum(3 + len(batch.importance) for update in updates[1:] for batch in update.batches)
        assert sum(gpu.async_copies.values()) == copies
        assert all(width % 8 == 0 for update in updates for batch in update.batches for width in (
            batch.tensors[0].shape[1], batch.tensors[2].shape[1]))  # fmt: skip


def test_validation_reads_once(data: Path, tmp_path: Path) -> None:
    with GhostGpu() as gpu:
        own = trainer(data, tmp_path)
        gpu.clear()
        own._validate()
        assert sum(gpu.waits.values()) + sum(gpu.to_host.values()) <= 2
        assert not gpu.to_device or set(gpu.to_device.values()) == {1}


def test_training_equals_the_cpu_and_resumes_exactly(data: Path, tmp_path: Path) -> None:
    options = ["model.dropout=0.0", "train.precision=fp32", "train.warmup=2", "train.max_steps=6"]
    assert train(data, tmp_path / "cpu", *options, device="cpu").returncode == 0
    with GhostGpu():
        whole = train(data, tmp_path / "whole", *options)
        assert whole.returncode == 0, whole.stderr
        assert train(data, tmp_path / "parts", *options, "train.max_steps=4").returncode == 0
        assert train(data, tmp_path / "parts", *options).returncode == 0
    for one, other in zip(records(tmp_path / "whole", "train"), records(tmp_path / "cpu", "train"), strict=True):
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-4)
    weights = [(tmp_path / name / "checkpoints" / "step_000006" / "model.safetensors").read_bytes()
               for name in ("parts", "whole")]  # fmt: skip
    assert weights[0] == weights[1]


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_divergence_is_noticed_in_16_bits(
    precision: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lamina.training.trainer.FP16_PATIENCE", 5)
    options = ["train.lr=1.0e+30", "train.warmup=0", f"train.precision={precision}", "train.validate_every=1000"]
    with GhostGpu():
        result = train(data, tmp_path / "run", *options, "train.max_steps=20")
    assert result.returncode == 4, result.stderr
    assert re.search(r"Training diverged at step \d+: the gradient of \S+ is not finite", result.stderr), result.stderr
    assert "Traceback" not in result.stderr


def test_a_failed_update_does_not_change_the_weights(data: Path, tmp_path: Path) -> None:
    with GhostGpu():
        own = trainer(data, tmp_path, "train.precision=bf16")
        updates = [update for update, _ in islice(own.batches.iterate(Position()), 2)]
        own.update(updates[0])
        before = [weight.detach().cpu().clone() for weight in own.model.parameters()]
        own.model.head.weight_VD.register_hook(lambda grad: grad * torch.nan)
        own.update(updates[1])
        assert all(torch.equal(old, new.cpu()) for old, new in zip(before, own.model.parameters(), strict=True))
        with pytest.raises(LaminaError, match="is not finite"):
            own._check_failures()


def test_a_non_finite_validation_loss_is_a_divergence(data: Path, tmp_path: Path) -> None:
    with GhostGpu():
        own = trainer(data, tmp_path)
        with torch.no_grad():
            own.model.head.weight_VD.fill_(torch.nan)
        with pytest.raises(LaminaError, match="the validation loss is not finite"):
            own._validate()


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory."),
        MemoryError(),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"),
    ],
)
@pytest.mark.parametrize("where", ["forward", "backward"])
def test_out_of_memory_suggests_a_remedy(
    where: str, error: Exception, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    with GhostGpu():
        own = trainer(data, tmp_path)
        update = next(own.batches.iterate(Position()))[0]
        if where == "forward":
            monkeypatch.setattr(own.objective, "compute", fail)
        else:
            monkeypatch.setattr(torch.Tensor, "backward", fail)
        with pytest.raises(LaminaError, match=r"Out of memory on cuda:0 in a batch of .* train.batch_tokens"):
            own.update(update)


def test_old_gpus_train_in_fp16() -> None:
    """bf16 on a T4 or V100 is emulated, and slow."""
    with GhostGpu(bf16=False):
        assert choose_precision("auto", GPU) == "fp16"
    with GhostGpu():
        assert choose_precision("auto", GPU) == "bf16"


@pytest.mark.parametrize("bf16", [True, False])
def test_a_cpu_run_resumes_on_a_gpu_in_its_own_precision(bf16: bool, data: Path, tmp_path: Path) -> None:
    short = ["train.warmup=2", "train.max_steps=4"]
    assert train(data, tmp_path / "run", *short, device="cpu").returncode == 0
    with GhostGpu(bf16):
        result = train(data, tmp_path / "run", *short[:1], "train.max_steps=6")
    assert result.returncode == 0, result.stderr
    assert "Precision stays fp32, as when the run was started." in result.stderr


def test_a_gpu_run_resumes_on_a_cpu_with_a_note(data: Path, tmp_path: Path) -> None:
    short = ["train.warmup=2", "train.max_steps=4"]
    with GhostGpu(bf16=False):
        assert train(data, tmp_path / "run", *short).returncode == 0
    result = train(data, tmp_path / "run", *short[:1], "train.max_steps=6", device="cpu")
    assert result.returncode == 0, result.stderr
    assert "The run was trained in fp16, which this device does not support; continuing in fp32." in result.stderr


def test_a_missing_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="torch found no CUDA device"):
        choose_device("cuda")
    monkeypatch.setenv("LOCAL_RANK", "2")
    with GhostGpu(), pytest.raises(UsageError, match="needs its own GPU, but torch found only 2"):
        choose_device("cuda")


def test_the_second_rank_stays_on_the_second_gpu(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without `set_device`, anything without an explicit device (collectives, scaler, generator) uses the first."""
    groups: list[str] = []
    monkeypatch.setattr(distributed.distributed, "init_process_group", lambda name, **_: groups.append(name))
    monkeypatch.setattr(distributed.distributed, "destroy_process_group", lambda: None)
    for name, value in {"WORLD_SIZE": "2", "RANK": "1", "LOCAL_RANK": "1"}.items():
        monkeypatch.setenv(name, value)
    seen: set[torch.device] = set()
    monkeypatch.setattr(GhostTensor, "__init__", lambda self, *_: seen.add(self.device), raising=False)
    with GhostGpu() as gpu, join_ranks("cuda") as ranks:
        assert gpu.chosen == [1]
        assert groups == ["cpu:gloo,cuda:nccl"]
        assert ranks.device == torch.device("cuda", 1)
        alone = Ranks(0, 1, ranks.device)
        own = trainer(data, tmp_path, "train.precision=fp16", ranks=alone)
        for update, _ in islice(own.batches.iterate(Position()), 2):
            own.update(update)
        own._validate()
        assert torch.zeros(1, device="cuda").device == ranks.device  # tensors passed to NCCL
    assert seen == {torch.device("cuda", 1)}
