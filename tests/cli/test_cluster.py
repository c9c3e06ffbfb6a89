"""Studies and translations as cluster jobs: killed at random, they give the same output as a plain command."""

from __future__ import annotations

import gzip
import json
import os
import random
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from lamina.base import cluster
from lamina.base.cluster import CommandRunner, Job, parse_options, run_jobs
from lamina.cli.sharding import translate_on_cluster
from lamina.errors import LaminaError, UsageError
from lamina.translation.shards import InputPart, read_shard
from support import run_lamina

pytest.importorskip("submitit")

STUDY = """\
name: small
data: {data}/data
test: [{data}/valid.en, {data}/valid.de]
steps: 6
seeds: [1, 2, 3]
baseline: plain
systems:
  plain: {{recipe: {data}/recipe.yaml, set: {{system: transformer}}}}
  fused: {{recipe: {data}/recipe.yaml}}
set: {{train.warmup: 3, train.save_every: 2, train.gradients_every: 2}}
"""
SBATCH = """#!/bin/sh
# runs the script at once, in the background, and says what Slurm says
id=$(date +%N)
script="$1"
cp "$script" {folder}/$id.sh
sed -n 's/^#SBATCH //p' "$script" >> {folder}/asked
echo $id >> {folder}/started
export SLURM_JOB_ID=$id SLURM_JOBID=$id SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NTASKS=1 SLURM_JOB_NUM_NODES=1
export SLURM_JOB_NODELIST=here SLURM_NODEID=0
setsid sh "$script" > /dev/null 2>&1 &
echo $! > {folder}/$id.pid
echo "Submitted batch job $id"
"""
SRUN = """#!/bin/sh
while [ $# -gt 0 ]; do
  case "$1" in --output|--error) shift 2;; --*) shift;; *) break;; esac
done
exec "$@"
"""
SACCT = """#!/bin/sh
echo "JobID|State|NodeList"
for file in {folder}/*.pid; do
  id=$(basename $file .pid)
  if kill -0 $(cat $file) 2> /dev/null; then echo "$id|RUNNING|here"; else echo "$id|COMPLETED|here"; fi
done
"""


SCONTROL = """#!/bin/sh
# requeue ID: the job starts again, under the same number
echo "$@" >> {folder}/controlled
setsid sh {folder}/$2.sh > /dev/null 2>&1 &
echo $! > {folder}/$2.pid
"""


def lamina(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "lamina", *map(str, arguments)]


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put fake Slurm commands first on the path."""
    folder = tmp_path / "slurm"
    folder.mkdir()
    scripts = {"sbatch": SBATCH, "srun": SRUN, "sacct": SACCT, "scontrol": SCONTROL, "scancel": "#!/bin/sh\n"}
    for name, text in scripts.items():
        (folder / name).write_text(text.replace("{folder}", str(folder)))
        (folder / name).chmod((folder / name).stat().st_mode | stat.S_IXUSR)
    (folder / "squeue").symlink_to("sacct")
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder


@pytest.mark.parametrize("count", [1, 3, 7, 50])
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_shards_concatenate_to_the_file(count: int, suffix: str, tmp_path: Path) -> None:
    generator = random.Random(count)
    lines = ["x" * generator.randrange(40) + "ü" * generator.randrange(3) for _ in range(41)]
    path = tmp_path / f"input{suffix}"
    content = "\n".join(lines).encode()
    path.write_bytes(gzip.compress(content) if suffix else content)
    found: list[str] = []
    for number in range(1, count + 1):
        first, part = read_shard(path, InputPart(number, count), numbered=True)
        own = list(part)
        assert first == len(found) + 1 or not own
        found += own
    assert found == lines


def test_an_empty_input_has_empty_shards(tmp_path: Path) -> None:
    (tmp_path / "input").touch()
    assert [list(read_shard(tmp_path / "input", InputPart(n, 2), numbered=True)[1]) for n in (1, 2)] == [[], []]


def test_translated_shards_equal_one_translation(data: Path, straight: Path, tmp_path: Path) -> None:
    options = ["--input", data / "valid.en", "--device", "cpu"]
    for form in ("text", "jsonl"):
        whole = run_lamina("translate", straight, *options, "--format", form)
        for number in (2, 1, 3):
            again = run_lamina(
                "translate",
                straight,
                *options,
                "--format",
                form,
                "--output",
                tmp_path / "parts",
                "--shard",
                f"{number}/3",
            )
            assert again.returncode == 0, again.stderr
        parts = sorted((tmp_path / "parts").glob(f"*.{'txt' if form == 'text' else form}"))
        assert "".join(part.read_text() for part in parts) == whole.stdout
    stamp = parts[0].stat().st_mtime_ns
    skipped = run_lamina(
        "translate", straight, *options, "--format", "jsonl", "--output", tmp_path / "parts", "--shard", "1/3"
    )
    assert skipped.returncode == 0
    assert "already finished" in skipped.stderr
    assert parts[0].stat().st_mtime_ns == stamp


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--shard", "0/3", "--output", "parts"],
            "--shard must be I/N with I from 1 to N, such as 3/100, but is `0/3` instead.",
        ),
        (["--shard", "1/3"], "--shard needs --input FILE and --output DIR."),
        (["--shards", "3", "--output", "parts"], "Use --cluster and --shards N together"),
        (
            ["--shard", "1/2", "--output", "parts", "--sample"],
            "--shard translates lines by beam search: omit --prefix, --sample and --format-in.",
        ),
    ],
)
def test_errors(options: list[str], message: str, data: Path, straight: Path) -> None:
    result = run_lamina("translate", straight, "--input", data / "valid.en", *options)
    assert result.returncode == 2
    assert message in result.stderr


@pytest.mark.parametrize(
    ("where", "threads", "expected"),
    [("local", None, ["--threads", "2"]), ("local", 3, []), ("slurm", None, [])],
)
def test_local_jobs_share_the_cores(
    where: cluster.Cluster, threads: int | None, expected: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    started: list[Job] = []
    monkeypatch.setattr(cluster, "run_jobs", lambda jobs, *others: started.extend(jobs))
    monkeypatch.setattr(sys, "argv", ["lamina", "translate", "run", "--cluster", where, "--shards", "8", "--jobs", "4"])
    monkeypatch.setenv("OMP_NUM_THREADS", "8")
    translate_on_cluster(tmp_path / "input", tmp_path, where, None, 8, None, 4, threads, "text", False)
    assert [list(job.command[3:]) for job in started] == [
        ["translate", "run", *expected, "--shard", f"{number}/8", "--quiet"] for number in range(1, 9)
    ]


def test_force_translates_finished_shards_again(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    finished = tmp_path / "part-000001-of-000002.txt"
    finished.write_text("of another model\n")
    states: list[list[bool]] = []
    monkeypatch.setattr(cluster, "run_jobs", lambda jobs, *others: states.append([job.is_done() for job in jobs]))
    command = ["lamina", "translate", "run", "--cluster", "slurm", "--shards", "2"]
    for force in (False, True):
        monkeypatch.setattr(sys, "argv", [*command, *(["--force"] if force else [])])
        translate_on_cluster(tmp_path / "input", tmp_path, "slurm", None, 2, None, 1, None, "text", force)
    assert states == [[True, False], [False, False]]
    assert not finished.exists()
    reused = f"lamina: {tmp_path}: 1 of 2 shards already finished; --force translates them again."
    assert capsys.readouterr().err.splitlines()[0] == reused


def test_cluster_options() -> None:
    assert parse_options(["gpus_per_node=2", "slurm_partition=gpu"]) == {"gpus_per_node": 2, "slurm_partition": "gpu"}
    with pytest.raises(UsageError, match="must be KEY=VALUE"):
        parse_options(["gpu"])


def test_a_failed_job_reports_the_reason(tmp_path: Path) -> None:
    command = (sys.executable, "-c", "import sys; sys.exit('lamina: no such thing')")
    job = Job("bad", command, tmp_path / "bad.log", tmp_path / "done", "yes")
    with pytest.raises(LaminaError, match=r"bad\.log: no such thing"):
        run_jobs([job], tmp_path, "local", {}, 1)


def test_a_stopped_job_is_resubmitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first attempt is stopped with the exit code for resuming; the second finishes."""
    monkeypatch.setattr(cluster, "GRACE", 0.1)
    script = (
        "import pathlib, sys\n"
        f"seen = pathlib.Path({str(tmp_path / 'seen')!r})\n"
        "if not seen.exists():\n    seen.touch(); sys.exit(75)\n"
    )
    job = Job("twice", (sys.executable, "-c", script), tmp_path / "twice.log", tmp_path / "done", "yes")
    run_jobs([job], tmp_path, "local", {}, 1)
    assert job.is_done()
    run_jobs([job], tmp_path, "local", {}, 1)  # nothing to do


def test_a_preempted_command_can_save(tmp_path: Path) -> None:
    script = (
        "import signal, sys, time, pathlib\n"
        f"signal.signal(signal.SIGTERM, lambda *_: (pathlib.Path({str(tmp_path / 'saved')!r}).touch(), sys.exit(75)))\n"
        f"pathlib.Path({str(tmp_path / 'up')!r}).touch()\n"
        "time.sleep(60)\n"
    )
    runner = CommandRunner(Job("long", (sys.executable, "-c", script), tmp_path / "log", tmp_path / "done", "yes"))
    runner.process = subprocess.Popen(runner.job.command)
    while not (tmp_path / "up").exists():
        time.sleep(0.05)
    again = runner.checkpoint()
    assert (tmp_path / "saved").exists()
    assert again.function.job == runner.job


@pytest.mark.slow
def test_a_study_killed_on_a_cluster_and_rerun_gives_the_same_table(data: Path, tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(STUDY.format(data=data))
    plain = run_lamina("study", tmp_path / "study.yaml", "--out", tmp_path / "plain", "--quiet")
    assert plain.returncode == 0, plain.stderr
    out = tmp_path / "jobs"
    whole = lamina("study", tmp_path / "study.yaml", "--out", out, "--cluster", "local", "--jobs", 2, "--quiet")
    with subprocess.Popen(whole, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 1800
        while len(jobs := read_jobs(out)) < 3 and time.monotonic() < deadline:
            time.sleep(0.1)
        process.kill()
    os.kill(int(jobs[-1]), signal.SIGKILL)  # the job has just started; jobs may outlive their launcher
    result = subprocess.run(whole, capture_output=True, text=True, check=False, timeout=3600)
    assert result.returncode == 0, result.stderr
    assert result.stdout == plain.stdout


def read_jobs(out: Path) -> list[str]:
    """Ids of the jobs started so far."""
    return list(json.loads((out / "jobs.json").read_text()).values()) if (out / "jobs.json").exists() else []


def is_at_work(out: Path, finished: int) -> bool:
    """Whether at least this many shards are finished and the job of another one has started."""
    return len(list(out.glob("part-*.txt"))) >= finished and len(read_jobs(out)) > finished


@pytest.mark.slow
def test_shards_on_a_cluster_killed_at_random_equal_one_run(data: Path, straight: Path, tmp_path: Path) -> None:
    text = "".join((data / "train.en").read_text() for _ in range(4))
    (tmp_path / "input").write_text(text)
    options = ["--input", tmp_path / "input", "--device", "cpu", "--threads", "1"]
    whole = run_lamina("translate", straight, *options)
    command = lamina(
        "translate", straight, *options, "--output", tmp_path / "parts", "--cluster", "local", "--shards", 4
    )
    generator = random.Random(3)
    for finished in range(3):  # kill the launcher and the job, each time with more shards finished
        with subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True) as process:
            deadline = time.monotonic() + 600
            while not is_at_work(tmp_path / "parts", finished) and time.monotonic() < deadline:
                time.sleep(0.05)
            time.sleep(4 * generator.random())
            os.killpg(process.pid, signal.SIGKILL)
        job = cluster._OrphanedProcess(tmp_path / "parts" / "jobs", read_jobs(tmp_path / "parts")[-1])
        if job.state == "RUNNING":
            os.kill(job.number, signal.SIGKILL)
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=3600)
    assert result.returncode == 0, result.stderr
    parts = sorted((tmp_path / "parts").glob("part-*.txt"))
    assert len(parts) == 4
    assert "".join(part.read_text() for part in parts) == whole.stdout


def test_jobs_on_slurm(slurm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With fake Slurm commands: checks the submission, the job, and that a second launcher has nothing to do."""
    monkeypatch.setattr(cluster, "ASK", 1.0)
    jobs = [
        Job(f"job-{n}", ("sh", "-c", f"echo {n}"), tmp_path / f"{n}.log", tmp_path / f"{n}.done", f"{n}")
        for n in (1, 2)
    ]
    run_jobs(jobs, tmp_path / "out", "slurm", {"slurm_partition": "gpu", "gpus_per_node": 1}, 1)
    assert [job.log.read_text() for job in jobs] == ["1\n", "2\n"]
    asked = (slurm / "asked").read_text()
    assert "--partition=gpu" in asked
    assert "--gpus-per-node=1" in asked
    assert "--job-name=job-2" in asked
    assert "--signal=" in asked
    run_jobs(jobs, tmp_path / "out", "slurm", {}, 1)
    assert len((slurm / "started").read_text().splitlines()) == 2


@pytest.mark.parametrize(("number", "requeued"), [(signal.SIGUSR2, True), (signal.SIGTERM, False)])
def test_a_preempted_job_saves_and_resumes(
    number: signal.Signals, requeued: bool, slurm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On submitit's signal the job saves and Slurm requeues it; on SIGTERM it is resubmitted."""
    monkeypatch.setattr(cluster, "GRACE", 0.1)
    monkeypatch.setattr(cluster, "ASK", 0.5)
    up, saved = tmp_path / "up", tmp_path / "saved"
    script = (
        "import pathlib, signal, sys, time\n"
        f"up, saved = pathlib.Path({str(up)!r}), pathlib.Path({str(saved)!r})\n"
        "if saved.exists():\n    sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, lambda *_: (saved.touch(), sys.exit(75)))\n"
        "up.touch()\ntime.sleep(60)\n"
    )
    job = Job("long", (sys.executable, "-c", script), tmp_path / "log", tmp_path / "done", "yes")

    def preempt() -> None:
        while not up.exists():
            time.sleep(0.05)
        (shell,) = [int(path.read_text()) for path in slurm.glob("*.pid")]
        (runner,) = map(int, subprocess.check_output(["pgrep", "-P", str(shell)], text=True).split())
        if number == signal.SIGTERM:  # Slurm signals every process of a job
            (command,) = map(int, subprocess.check_output(["pgrep", "-P", str(runner)], text=True).split())
            os.kill(command, number)
        os.kill(runner, number)

    thread = threading.Thread(target=preempt)
    thread.start()
    run_jobs([job], tmp_path / "out", "slurm", {}, 1)
    thread.join()
    assert saved.exists()
    assert job.is_done()
    assert (slurm / "controlled").exists() == requeued
    assert len((slurm / "started").read_text().splitlines()) == (1 if requeued else 2)


@pytest.mark.slow
def test_a_translation_on_slurm(slurm: Path, data: Path, straight: Path, tmp_path: Path) -> None:
    options = ["--input", data / "valid.en", "--device", "cpu"]
    whole = run_lamina("translate", straight, *options)
    result = run_lamina(
        "translate", straight, *options, "--output", tmp_path / "parts", "--cluster", "slurm", "--shards", "2"
    )
    assert result.returncode == 0, result.stderr
    parts = sorted((tmp_path / "parts").glob("part-*.txt"))
    assert "".join(part.read_text() for part in parts) == whole.stdout


def test_missing_slurm_is_reported(tmp_path: Path) -> None:
    job = Job("one", ("true",), tmp_path / "log", tmp_path / "done", "")
    with pytest.raises(UsageError, match="--cluster slurm: Could not detect"):
        run_jobs([job], tmp_path, "slurm", {}, 1)


def test_without_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "submitit", None)
    job = Job("one", ("true",), tmp_path / "log", tmp_path / "done", "")
    with pytest.raises(LaminaError, match=r"pip install 'lamina\[cluster\]'"):
        run_jobs([job], tmp_path, "local", {}, 1)


def test_a_job_whose_process_id_was_reused_is_neither_found_nor_killed(tmp_path: Path) -> None:
    other = cluster._OrphanedProcess(tmp_path, str(os.getpid()))
    assert other.state == "UNKNOWN"
    assert other.done()
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    cluster._OrphanedProcess(tmp_path, str(ended.pid)).cancel()
