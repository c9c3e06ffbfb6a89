"""What the system does to a command: full disks, files that cannot be read, pipes, killed processes."""

from __future__ import annotations

import errno
import io
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

import pytest

import lamina.cli
from lamina.base.files import digest
from lamina.corpus import encoding, prepare
from lamina.corpus.prepared import PreparedData
from lamina.demo.grammar import write_demo
from lamina.errors import DataError
from lamina.store.model_folder import read_weights
from support import run_lamina

SHORT = ("--beam", "1", "--max-length", "0", "3")
UNREADABLE = Path("/proc/self/mem")  # a regular file whose first byte is an I/O error


@contextmanager
def full_disk(room: int) -> Iterator[None]:
    """A limit on the size of files stands in for the disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("average {run} --last 3", "{run}/averaged: cannot be written"),
        ("train {data}/recipe.yaml --data {data}/data --out {tmp}/new", "{tmp}/new/run.json: File too large."),
        ("translate {run} --input {data}/valid.en --output {tmp}/o --beam 1 --max-length 0 3", "{tmp}/o: cannot be"),
        ("analyze gradients {run} --out {tmp}/g", "{tmp}/g/gradients.html: File too large."),
        ("analyze report {run} --out {tmp}/r.html", "{tmp}/r.html: File too large."),
        ("shortlist --data {data}/data --out {tmp}/s", "{tmp}/s: cannot be written"),
        ("noise --input {data}/valid.en --output {tmp}/a {tmp}/b", "{tmp}/a: cannot be written (File too large)."),
    ],
    ids=lambda words: words.split()[0],
)
def test_a_full_disk_is_named(command: str, named: str, data: Path, straight: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(straight, run)
    assert run_lamina("average", run, "--last", "2").returncode == 0
    before = {path: digest(path) for path in tmp_path.rglob("*") if path.is_file()}
    places = {"run": run, "data": data, "tmp": tmp_path}
    with full_disk(60):
        result = run_lamina(*command.format(**places).split(" "))
    assert result.returncode == 3, result.stderr
    assert result.stderr.startswith(f"lamina: {named.format(**places)}")
    assert "unexpected" not in result.stderr
    assert {path: digest(path) for path in before} == before
    assert not list(tmp_path.rglob("*.partial"))


def test_a_full_disk_while_the_demo_is_written(tmp_path: Path) -> None:
    with full_disk(60), pytest.raises(OSError, match="File too large") as caught:
        write_demo(tmp_path, train=20, valid=1, test=1)
    assert caught.value.filename == str(tmp_path / "train.en")
    assert not list(tmp_path.iterdir())


def test_a_full_disk_behind_stdout() -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "lamina", "systems"], stdout=full, stderr=subprocess.PIPE, timeout=120, check=False
        )
    assert (done.returncode, done.stderr) == (3, b"lamina: stdout: No space left on device.\n")


@pytest.mark.parametrize(
    "command",
    [
        "prepare --train {bad} {de} --valid {en} {de} --out {tmp}/o",
        "prepare --train {en} {de} --valid {en} {de} --bpe-codes {bad} --out {tmp}/o",
        "translate {run} --input {bad} --output {tmp}/o",
        "eval {run} --test {bad} {de} --output {tmp}/o",
        "rescore {run} --source {en} --target {bad}",
        "noise --input {bad} --output {tmp}/o {tmp}/p",
    ],
    ids=lambda words: words.split()[0],
)
def test_an_input_that_cannot_be_read_is_not_the_output(
    command: str, data: Path, straight: Path, tmp_path: Path
) -> None:
    places = {"bad": UNREADABLE, "en": data / "valid.en", "de": data / "valid.de", "run": straight, "tmp": tmp_path}
    result = run_lamina(*command.format(**places).split(" "))
    assert (result.returncode, result.stderr) == (3, f"lamina: {UNREADABLE}: cannot be read (Input/output error).\n")
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


class Broken(io.RawIOBase):
    """Fails when it is read."""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))


@pytest.mark.parametrize("options", [(), ("--format-in", "html")], ids=["lines", "document"])
def test_a_stdin_that_cannot_be_read_is_not_the_output(
    options: tuple[str, ...], straight: Path, tmp_path: Path
) -> None:
    bad = io.BufferedReader(Broken())
    result = run_lamina("translate", straight, "--output", tmp_path / "o", *options, stdin=bad)
    assert (result.returncode, result.stderr) == (3, "lamina: stdin: cannot be read (Input/output error).\n")


def test_weights_that_cannot_be_read_are_not_missing(straight: Path, tmp_path: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(straight / "model", model)
    weights = model / "model.safetensors"
    weights.unlink()
    weights.symlink_to(weights)
    message = f"{weights}: cannot be read (Too many levels of symbolic links)."
    assert run_lamina("translate", model, stdin="A dog.\n").stderr == f"lamina: {message}\n"
    with pytest.raises(DataError, match=r"cannot be read as safetensors .*Too many levels"):
        read_weights(model)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("eval {run} --test {long} {short}", "{long} has 3 lines, but {short} has 1."),
        ("rescore {run} --source {short} --target {long}", "{short} has 1 line, but {long} has 3."),
        ("score --hyp {long} --ref {short}", "{short} has 1 line, but {long} has 3 lines."),
    ],
    ids=["eval", "rescore", "score"],
)
def test_pipes_of_unequal_length(command: str, message: str, straight: Path, tmp_path: Path) -> None:
    places = {"run": straight, "long": tmp_path / "long", "short": tmp_path / "short"}
    for name, lines in (("long", "a\nb\nc\n"), ("short", "a\n")):
        os.mkfifo(places[name])
        threading.Thread(target=places[name].write_text, args=(lines,), daemon=True).start()
    result = run_lamina(*command.format(**places).split(" "))
    assert (result.returncode, result.stderr) == (3, f"lamina: {message.format(**places)}\n")


def test_a_pipe_cannot_be_prepared(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    result = run_lamina("prepare", "--train", pipe, pipe, "--valid", pipe, pipe, "--out", tmp_path / "o")
    message = f"lamina: {pipe}: is not a regular file; `prepare` reads its inputs more than once.\n"
    assert (result.returncode, result.stderr) == (3, message)


class Lines(io.RawIOBase):
    """A pipe whose writer waits for an answer to each line: notes what was answered before the next one."""

    def __init__(self, answers: io.BytesIO) -> None:
        self.answers, self.answered, self.waiting = answers, [], [b"A dog.\n", b"A cat.\n"]

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:
        self.answered.append(self.answers.getvalue().count(b"\n"))
        line = self.waiting.pop(0) if self.waiting else b""
        buffer[: len(line)] = line
        return len(line)


def test_a_buffer_of_one_line_answers_each_at_once(straight: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = io.BytesIO()
    lines = Lines(answers)
    monkeypatch.setattr(sys, "argv", ["lamina", "translate", str(straight), "--buffer", "1", *SHORT])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(lines)))
    with redirect_stdout(io.TextIOWrapper(answers)), pytest.raises(SystemExit):
        lamina.cli.main()
    assert lines.answered[:3] == [0, 1, 2]


@pytest.mark.parametrize(
    ("place", "name", "message"),
    [
        (encoding, "encode_batch", "A worker process was killed, possibly for lack of memory; rerun with fewer"),
        (prepare, "learn_sentencepiece", "A child process was killed, possibly for lack of memory."),
    ],
    ids=["encoding", "learning"],
)
def test_a_killed_worker_of_prepare(
    place: object, name: str, message: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [data / f"{split}.{language}" for split in ("train", "valid") for language in ("en", "de")]
    command = ["prepare", "--train", *files[:2], "--valid", *files[2:], "--vocab-size", "500", "--workers", "2"]
    out = tmp_path / "data"
    with monkeypatch.context() as patch:
        patch.setattr(place, name, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        result = run_lamina(*command, "--out", out)
    assert (result.returncode, result.stderr.count("\n")) == (3, 1), result.stderr
    assert result.stderr.startswith(f"lamina: {message}")
    learned = out / "text" / "subwords.model"
    assert learned.exists() == (name == "encode_batch"), "what is finished stays"
    assert run_lamina(*command, "--out", out).returncode == 0
    assert (out / "meta.json").read_bytes() == (data / "data" / "meta.json").read_bytes()
    assert PreparedData(str(out)).is_whole()
