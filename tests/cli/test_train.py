"""`lamina train`: killed, stopped, resumed or distributed over ranks, it gives the same weights."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from lamina.store.model_folder import load_model_folder
from lamina.systems.published import SYSTEMS
from support import Finished, run_lamina


def command(data: Path, out: Path, *options: str, ranks: int = 1) -> list[str]:
    start = [sys.executable, "-m", "lamina"]
    if ranks > 1:
        start = [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--standalone",
            f"--nproc-per-node={ranks}",
            "-m",
            "lamina",
        ]
    return [*start, "train", str(data / "recipe.yaml"), "--data", str(data / "data"), "--out", str(out), *options]


def train(data: Path, out: Path, *options: str) -> Finished:
    return run_lamina("train", data / "recipe.yaml", "--data", data / "data", "--out", out, *options)


def train_ranks(data: Path, out: Path, *options: str, ranks: int) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    whole = command(data, out, *options, ranks=ranks)
    return subprocess.run(whole, capture_output=True, text=True, timeout=170, check=False, env=environment)


def start(data: Path, out: Path, *options: str, ranks: int = 1) -> subprocess.Popen[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    whole = command(data, out, *options, ranks=ranks)
    return subprocess.Popen(whole, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True)


def metrics(out: Path) -> list[dict[str, Any]]:
    records = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in record.items() if key != "tokens_per_second"} for record in records]


def assert_same_run(one: Path, other: Path) -> None:
    assert metrics(one) == metrics(other)
    assert (one / "model" / "model.safetensors").read_bytes() == (other / "model" / "model.safetensors").read_bytes()


def test_a_run_writes_all_its_files(straight: Path) -> None:
    for name in (
        "recipe.yaml",
        "run.json",
        "train.log",
        "metrics.jsonl",
        "checkpoints/last.txt",
        "checkpoints/best.txt",
    ):
        assert (straight / name).exists(), name
    kinds = {record["kind"] for record in metrics(straight)}
    assert kinds == {"train", "valid", "gradients"}
    assert len(next(record for record in metrics(straight) if record["kind"] == "gradients")["encoder"]) == 2
    assert load_model_folder(straight / "model").model.config.head.type == "surface"
    valid = [record for record in metrics(straight) if record["kind"] == "valid"]
    assert all(record["normalised_perplexity"] < record["perplexity"] for record in valid)


def test_a_finished_run_is_not_modified(data: Path, straight: Path) -> None:
    before = metrics(straight)
    assert train(data, straight).returncode == 0
    assert metrics(straight) == before


@pytest.mark.parametrize("kills", [1, pytest.param(20, marks=pytest.mark.slow)])
def test_killed_at_random_it_resumes_to_the_same_weights(
    kills: int, data: Path, straight: Path, tmp_path: Path
) -> None:
    generator, killed = random.Random(4), 0
    for _ in range(kills):
        with start(data, tmp_path / "run") as process:
            for _ in islice(process.stderr, generator.randint(1, 6)):  # lines of the log
                pass
            time.sleep(0.02 * generator.random())
            killed += process.poll() is None
            process.kill()
    assert killed
    result = train(data, tmp_path / "run")
    assert result.returncode == 0, result.stderr
    assert_same_run(tmp_path / "run", straight)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 75), (signal.SIGINT, 130)])
def test_signals_save_and_stop(number: int, code: int, data: Path, straight: Path, tmp_path: Path) -> None:
    with start(data, tmp_path / "run") as process:
        for line in process.stderr:
            if line.startswith("step"):
                break
        process.send_signal(number)
        rest = process.stderr.read()
    assert process.returncode == code
    assert "and saved; rerun the same command to resume." in rest
    assert train(data, tmp_path / "run").returncode == 0
    assert_same_run(tmp_path / "run", straight)


@pytest.mark.slow
def test_a_damaged_checkpoint_is_reported_and_the_previous_one_used(data: Path, straight: Path, tmp_path: Path) -> None:
    assert train(data, tmp_path / "run", "--set", "train.max_steps=15").returncode == 0
    path = tmp_path / "run" / "checkpoints" / "step_000015" / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)
    result = train(data, tmp_path / "run")
    damage = "step_000015/model.safetensors: damaged (SHA-256 does not match config.json)"
    assert f"{damage}; trying the previous checkpoint." in result.stderr
    assert "Resumed from step 10." in result.stderr
    assert (tmp_path / "run" / "model" / "model.safetensors").read_bytes() == (
        straight / "model" / "model.safetensors"
    ).read_bytes()


def test_average(straight: Path) -> None:
    result = run_lamina("average", straight, "--last", "2")
    assert result.returncode == 0, result.stderr
    assert result.stdout.endswith("the average of steps 20, 24\n")
    parts = [load_file(straight / "checkpoints" / f"step_0000{step}" / "model.safetensors") for step in (20, 24)]
    averaged = dict(load_model_folder(straight / "averaged").model.named_parameters())
    for name, weight in averaged.items():
        torch.testing.assert_close(weight.detach(), (parts[0][name] + parts[1][name]) / 2)
    chosen = run_lamina("average", straight, "--steps", "10,20")
    assert "the average of steps 10, 20" in chosen.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "Give either --last or --steps."),
        (["--last", "99"], "--last must be at most"),
        (["--steps", "3"], "No checkpoint at step 3; available: 5,"),
        (["--steps", "x"], "--steps must be comma-separated numbers, but is `x` instead."),
    ],
)
def test_average_errors(options: list[str], message: str, straight: Path) -> None:
    result = run_lamina("average", straight, *options)
    assert result.returncode == 2
    assert message in result.stderr


def test_settings_that_cannot_change_on_resume(data: Path, straight: Path) -> None:
    result = train(data, straight, "--set", "train.lr=0.1")
    assert result.returncode == 2
    assert "cannot be resumed with a different train.lr: it was 0.002 and is now 0.1." in result.stderr


def test_other_data_is_named_before_the_settings_that_follow_from_it(
    data: Path, straight: Path, tmp_path: Path
) -> None:
    files = [data / f"{split}.{language}" for split in ("train", "valid") for language in ("en", "de")]
    other = tmp_path / "data"
    run_lamina("prepare", "--train", *files[:2], "--valid", *files[2:], "--vocab-size", "400", "--out", other)
    result = run_lamina("train", data / "recipe.yaml", "--data", other, "--out", straight)
    message = f"lamina: {straight}: cannot be resumed with different data. Choose another folder.\n"
    assert (result.returncode, result.stderr) == (2, message)


def test_a_second_process_is_rejected(data: Path, tmp_path: Path) -> None:
    options = ("--set", "train.max_steps=100000")
    with start(data, tmp_path / "run", *options) as first:
        first.stderr.readline()
        first.send_signal(signal.SIGSTOP)  # it keeps its lock
        second = train(data, tmp_path / "run", *options)
        first.kill()
    assert second.returncode == 2
    assert "another process is training this run" in second.stderr


def plain(name: str) -> list[str]:
    options = ["model.dropout=0.0", "train.max_steps=20", "train.warmup=5", f"name={name}"]
    return [part for option in options for part in ("--set", option)]


@pytest.mark.slow
def test_ranks_and_accumulation_give_the_weights_of_one_whole_batch(data: Path, tmp_path: Path) -> None:
    half = ["--set", "train.batch_tokens=128"]
    assert train(data, tmp_path / "one", *plain("one")).returncode == 0
    assert train(data, tmp_path / "turns", *plain("turns"), *half, "--set", "train.accumulate=2").returncode == 0
    two = train_ranks(data, tmp_path / "ranks", *plain("ranks"), *half, ranks=2)
    assert two.returncode == 0, two.stderr
    step = Path("checkpoints") / "step_000020" / "model.safetensors"
    expected = load_file(tmp_path / "one" / step)
    for other in ("turns", "ranks"):
        found = load_file(tmp_path / other / step)
        for name, weight in expected.items():
            torch.testing.assert_close(found[name], weight, rtol=1e-4, atol=1e-5, msg=lambda m, n=name: f"{n}: {m}")


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 2])
def test_200_steps_equal_100_and_a_kill(ranks: int, data: Path, tmp_path: Path) -> None:
    """The kill is between two checkpoints and within an epoch."""
    options = ["train.max_steps=200", "train.save_every=35", "train.validate_every=35", "train.log_every=1"]
    long = [part for option in options for part in ("--set", option)]
    assert train_ranks(data, tmp_path / "whole", *long, ranks=ranks).returncode == 0
    with start(data, tmp_path / "parts", *long, ranks=ranks) as process:
        for line in process.stderr:
            if line.startswith("step 100 "):
                break
        os.killpg(process.pid, signal.SIGKILL)
    result = train_ranks(data, tmp_path / "parts", *long, ranks=ranks)
    assert "Resumed from step 70." in result.stderr
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


@pytest.mark.slow
def test_killed_inside_a_checkpoint_write(data: Path, straight: Path, tmp_path: Path) -> None:
    inside = 0
    for _ in range(4):
        with start(data, tmp_path / "run", "--quiet") as process:
            while process.poll() is None:
                if list((tmp_path / "run" / "checkpoints").glob("*.partial")):
                    process.kill()
                    inside += 1
                    break
    assert inside
    assert list((tmp_path / "run" / "checkpoints").glob("*.partial"))
    assert train(data, tmp_path / "run").returncode == 0
    assert_same_run(tmp_path / "run", straight)
    assert not list((tmp_path / "run" / "checkpoints").glob("*.partial"))


@pytest.mark.slow
def test_when_one_rank_dies_all_end(data: Path, tmp_path: Path) -> None:
    endless = ["--set", "train.max_steps=100000", "--set", "train.log_every=1"]
    with start(data, tmp_path / "run", *endless, ranks=2) as process:
        for line in process.stderr:
            if line.startswith("step 3 "):
                break
        workers = subprocess.check_output(["pgrep", "-P", str(process.pid)], text=True).split()
        os.kill(int(workers[-1]), signal.SIGKILL)
        process.stderr.read()
        assert process.wait(timeout=60) != 0
    assert not subprocess.run(["pgrep", "-g", str(process.pid)], capture_output=True, check=False).stdout


def test_divergence_reports_the_layer_and_the_last_good_checkpoint(data: Path, tmp_path: Path) -> None:
    result = train(data, tmp_path / "run", "--set", "train.lr=1.0e+30", "--set", "train.warmup=0")
    assert result.returncode == 4
    assert "Training diverged at step" in result.stderr
    assert "Traceback" not in result.stderr


def test_fine_tuning_starts_from_another_model(data: Path, straight: Path, tmp_path: Path) -> None:
    options = ["--init-from", str(straight / "model"), "--set", "train.lr=1.0e-9", "--set", "train.max_steps=9"]
    assert train(data, tmp_path / "tuned", *options).returncode == 0
    found, expected = (load_file(folder / "model" / "model.safetensors") for folder in (tmp_path / "tuned", straight))
    for name, weight in expected.items():
        torch.testing.assert_close(found[name], weight, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--data", "nowhere"], 3, "nowhere: is not a finished data folder; create one with `lamina prepare`."),
        (["--out", "/proc/run"], 3, "/proc/run: cannot be written"),
        (["--set", "train.sed=1"], 2, "--set train.sed: not an option. Did you mean `seed`?"),
    ],
)
def test_errors(options: list[str], code: int, message: str, data: Path, tmp_path: Path) -> None:
    result = train(data, tmp_path / "run", *options)
    assert result.returncode == code
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def copy_of(data: Path, tmp_path: Path) -> Path:
    shutil.copytree(data / "data", tmp_path / "data")
    shutil.copy(data / "recipe.yaml", tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        ("train/00000/target.ids", Path.unlink, "target.ids: not found. Rerun `lamina prepare` to repair it."),
        ("train/00000", shutil.rmtree, "train/00000/shard.json: not found."),
        ("valid/00000/source.ids", lambda path: path.write_bytes(b"123"), "source.ids: damaged (SHA-256 mismatch)."),
        ("text/subwords.model", lambda path: path.write_bytes(path.read_bytes() + b"x"), "damaged"),
    ],
    ids=["missing file", "missing shard", "truncated", "vocabulary"],
)
def test_damaged_data_is_reported_and_nothing_is_lost(
    name: str, damage: Callable[[Path], object], message: str, data: Path, straight: Path, tmp_path: Path
) -> None:
    damaged = copy_of(data, tmp_path)
    damage(damaged / "data" / name)
    before = sorted(path.name for path in (straight / "checkpoints").iterdir())
    result = train(damaged, straight)
    assert result.returncode == 3
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert sorted(path.name for path in (straight / "checkpoints").iterdir()) == before


@pytest.mark.slow
def test_a_full_disk_keeps_the_previous_checkpoint(data: Path, straight: Path, tmp_path: Path) -> None:
    """Simulated by a limit on the file size."""
    smaller = ["--set", "train.max_steps=12"]
    assert train(data, tmp_path / "run", *smaller).returncode == 0
    largest = (tmp_path / "run" / "checkpoints" / "step_000010" / "training_state.pt").stat().st_size
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({largest} // 2, {largest} // 2));"
    script = (
        f"{limit} import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); from lamina.cli import main; main()"
    )
    arguments = command(data, tmp_path / "run")[3:]
    result = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=False)
    assert result.returncode == 3, result.stderr
    assert "The previous content is unchanged." in result.stderr
    assert "Traceback" not in result.stderr
    assert train(data, tmp_path / "run").returncode == 0
    assert metrics(tmp_path / "run")[-1] == metrics(straight)[-1]


def test_fine_tuning_needs_the_same_vocabulary(data: Path, straight: Path, tmp_path: Path) -> None:
    pairs = [str(data / f"{split}.{language}") for split in ("valid", "valid") for language in ("en", "de")]
    files = ["--train", *pairs[:2], "--valid", *pairs[2:]]
    assert run_lamina("prepare", *files, "--vocab-size", "5000", "--out", tmp_path / "other").returncode == 0
    result = run_lamina(
        "train", data / "recipe.yaml", "--data", tmp_path / "other", "--out", tmp_path / "run", "--init-from", straight
    )
    assert result.returncode == 3
    assert f"Prepare the data with --text-from {straight / 'model'}." in result.stderr
    again = run_lamina("prepare", *files, "--text-from", straight, "--out", tmp_path / "same")
    assert again.returncode == 0, again.stderr
    tuned = run_lamina(
        "train", data / "recipe.yaml", "--data", tmp_path / "same", "--out", tmp_path / "tuned",
        "--init-from", straight, "--set", "train.max_steps=9",
    )  # fmt: skip
    assert tuned.returncode == 0, tuned.stderr


@pytest.mark.slow
def test_the_moving_average_is_saved_and_resumes_exactly(data: Path, tmp_path: Path) -> None:
    own = ["--set", "train.ema=0.5", "--set", "train.save_every=1", "--set", "train.keep_last=30"]
    plain_run, averaged = tmp_path / "plain", tmp_path / "ema"
    assert train(data, plain_run, *own[2:]).returncode == 0
    assert train(data, averaged, *own, "--set", "train.max_steps=13").returncode == 0
    assert train(data, averaged, *own).returncode == 0

    def weight(run: Path, step: int) -> torch.Tensor:
        return load_file(run / "checkpoints" / f"step_{step:06}" / "model.safetensors")[
            "encoder.layers.0.attention.out.weight"
        ]

    for step in range(2, 25):
        expected = 0.5 * weight(averaged, step - 1) + 0.5 * weight(plain_run, step)
        torch.testing.assert_close(weight(averaged, step), expected)


@pytest.mark.slow
def test_compiled_training_learns_the_same(data: Path, tmp_path: Path) -> None:
    options = ["--set", "model.dropout=0.0", "--set", "train.max_steps=9"]
    assert train(data, tmp_path / "plain", *options).returncode == 0
    compiled = subprocess.run(
        command(data, tmp_path / "compiled", *options, "--set", "train.compile=true"),
        capture_output=True, text=True, timeout=1500, check=False,
    )  # fmt: skip
    assert compiled.returncode == 0, compiled.stderr
    losses = [
        [record["loss"] for record in metrics(tmp_path / name) if record["kind"] == "train"]
        for name in ("plain", "compiled")
    ]
    assert losses[1] == pytest.approx(losses[0], rel=1e-3)


@pytest.mark.slow
def test_the_best_checkpoints_are_kept(data: Path, tmp_path: Path) -> None:
    options = ["train.validate_every=2", "train.keep_best=3", "train.keep_last=1", "train.save_every=24"]
    result = train(data, tmp_path / "run", *(part for option in options for part in ("--set", option)))
    assert result.returncode == 0, result.stderr
    losses = {record["step"]: record["loss"] for record in metrics(tmp_path / "run") if record["kind"] == "valid"}
    best = sorted(losses, key=losses.__getitem__)
    kept = sorted(int(path.name[5:]) for path in (tmp_path / "run" / "checkpoints").glob("step_*"))
    assert kept == sorted({*best[:3], 24})
    assert (tmp_path / "run" / "checkpoints" / "best.txt").read_text() == f"step_{best[0]:06}\n"


def test_gradient_norms_are_recorded_before_clipping(data: Path, tmp_path: Path) -> None:
    first_steps = ["train.max_steps=2", "train.warmup=1", "train.gradients_every=1"]
    norms = []
    for limit in ("null", "1e-6"):
        options = [*first_steps, f"train.clip_norm={limit}"]
        result = train(data, tmp_path / limit, *(part for option in options for part in ("--set", option)))
        assert result.returncode == 0, result.stderr
        norms += [record["encoder"] for record in metrics(tmp_path / limit) if record["kind"] == "gradients"]
    assert norms[0] == norms[2]  # first step only; afterwards the weights differ
    assert min(norms[0]) > 1e-6


@pytest.mark.slow
def test_validation_bleu_selects_the_best_checkpoint(data: Path, tmp_path: Path) -> None:
    options = ["train.bleu_sentences=8", "train.best_by=bleu", "train.validate_every=12"]
    result = train(data, tmp_path / "run", *(part for option in options for part in ("--set", option)))
    assert result.returncode == 0, result.stderr
    scores = {record["step"]: record["bleu"] for record in metrics(tmp_path / "run") if record["kind"] == "valid"}
    assert list(scores) == [12, 24]
    best = max(scores, key=lambda step: (scores[step], -step))
    assert (tmp_path / "run" / "checkpoints" / "best.txt").read_text() == f"step_{best:06}\n"
    assert re.search(r"step 24  valid loss .* bleu \d+\.\d\d", result.stderr)


def test_tensorboard(data: Path, tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    assert train(data, tmp_path / "run", "--tensorboard").returncode == 0
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard")).Reload()
    drawn = [event.value for event in events.Scalars("valid/loss")]
    recorded = [record["loss"] for record in metrics(tmp_path / "run") if record["kind"] == "valid"]
    assert drawn == pytest.approx(recorded)
    assert {"train/loss", "gradients/encoder_00", "gradients/encoder_01"} <= set(events.Tags()["scalars"])


def test_a_missing_extra_is_named(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    result = train(data, tmp_path / "run", "--tensorboard")
    assert result.returncode == 5
    assert result.stderr == "lamina: TensorBoard needs an extra: pip install 'lamina[track]'\n"


def test_bench(data: Path) -> None:
    result = run_lamina("bench", "train", data / "recipe.yaml", "--data", data / "data", "--steps", "2")
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert report["tokens_per_second"] > 0
    assert 0 < report["share_of_peak"] < 1
    assert report["peak_memory_mb"] > 100


@pytest.mark.slow
@pytest.mark.parametrize("system", sorted(SYSTEMS.keys() - {"depth-growing"}))  # which needs a trained model
def test_every_system_learns(system: str, data: Path, tmp_path: Path) -> None:
    options = ["train.max_steps=30", "train.warmup=10", "train.log_every=5", f"system={system}", "model.size=tiny"]
    (tmp_path / "recipe.yaml").write_text(f"system: {system}\nmodel: {{size: tiny}}\n")
    result = run_lamina(
        "train", tmp_path / "recipe.yaml", "--data", data / "data", "--out", tmp_path / "run",
        *(part for option in (*options, "train.batch_tokens=512", "train.lr=1.0e-3") for part in ("--set", option)),
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    losses = [record["loss"] for record in metrics(tmp_path / "run") if record["kind"] == "train"]
    assert losses[-1] < losses[0] - 0.5
