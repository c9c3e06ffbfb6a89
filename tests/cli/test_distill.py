"""`lamina distill`: sharding, resuming and error messages."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from lamina.corpus.filters import Filters
from lamina.store.loading import load_run
from lamina.study import distillation
from lamina.study.launch import Training
from lamina.translation.shards import InputPart
from support import run_lamina

STUDENT = """\
name: student
system: transformer
model: {size: tiny, d_model: 16, ffn_size: 32, heads: 2, dropout: 0.1, encoder: {layers: 3}, decoder: {layers: 1}}
train: {max_steps: 6, batch_tokens: 256, lr: 2.0e-3, warmup: 4, save_every: 3, validate_every: 6, log_every: 2}
"""
IN_CHUNKS = "from lamina.study import distillation; distillation.CHUNK = 20; from lamina.cli import main; main()"


@pytest.fixture
def folder(data: Path, straight: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for side in ("en", "de"):
        lines = (data / f"train.{side}").read_text().splitlines()[:50]
        (tmp_path / f"some.{side}").write_text("".join(f"{line}\n" for line in lines))
    (tmp_path / "student.yaml").write_text(STUDENT)
    monkeypatch.setattr(distillation, "CHUNK", 20)
    return tmp_path


def arguments(folder: Path, data: Path, straight: Path, *more: str | Path) -> list[str | Path]:
    return [
        *("distill", straight, "--student", folder / "student.yaml", "--source", folder / "some.en", "--beam", "2"),
        *("--valid", data / "valid.en", data / "valid.de", "--out", folder / "run", "--quiet", *more),
    ]


def make_plan(folder: Path, data: Path, straight: Path) -> distillation.Distillation:
    files = (folder / "student.yaml", (folder / "some.en",), (), (data / "valid.en", data / "valid.de"))
    return distillation.Distillation((straight,), *files, folder / "run", 2)


def chunks(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "run" / "distill" / "outputs").iterdir())


def test_shards_share_the_translation(folder: Path, data: Path, straight: Path) -> None:
    first = run_lamina(*arguments(folder, data, straight, "--shard", "2/2"))
    assert first == (0, f"{folder / 'run'}: shard 2/2 is complete; other shards have 2 chunks left.\n", "")
    assert chunks(folder) == ["000001.jsonl"]
    second = run_lamina(*arguments(folder, data, straight, "--shard", "1/2"))
    assert second == (0, f"{folder / 'run'}: shard 1/2 is complete; all shards are complete.\n", "")
    assert chunks(folder) == ["000000.jsonl", "000001.jsonl", "000002.jsonl"]
    last = (folder / "run" / "distill" / "outputs" / "000002.jsonl").read_text().splitlines()
    assert len(last) == 10
    assert set(json.loads(last[0])) == {"text", "score", "tokens"}


def test_finished_chunks_are_not_translated_again(
    folder: Path, data: Path, straight: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(Exception):
        pass

    write, written = distillation.write_file, []

    def fail_at_the_second(path: Path, content: str) -> None:
        if path.suffix == ".jsonl":
            written.append(path.name)
            if len(written) == 2:
                raise Killed
        write(path, content)

    monkeypatch.setattr(distillation, "write_file", fail_at_the_second)
    assert run_lamina(*arguments(folder, data, straight, "--shard", "1/1")).returncode == 1
    assert chunks(folder) == ["000000.jsonl"]
    plan = make_plan(folder, data, straight)
    assert distillation.translate_sources(plan, InputPart(1, 1), False, "cpu", 1, lambda *_: None) == 0
    assert written == ["000000.jsonl", "000001.jsonl", "000001.jsonl", "000002.jsonl"]


def test_mistakes_are_one_line(folder: Path, data: Path, straight: Path) -> None:
    for shard in ("0/2", "3/2", "x"):
        assert run_lamina(*arguments(folder, data, straight, "--shard", shard)) == (
            2,
            "",
            f"lamina: --shard must be I/N with I from 1 to N, such as 3/100, but is `{shard}` instead.\n",
        )
    twice = ("--target", folder / "some.de", "--target", folder / "some.de")
    assert run_lamina(*arguments(folder, data, straight, *twice)) == (
        2,
        "",
        "lamina: Give one --target per --source (targets: 2, sources: 1).\n",
    )
    assert run_lamina(*arguments(folder, data, straight, "--target", folder / "none")) == (
        3,
        "",
        f"lamina: {folder / 'none'}: not found.\n",
    )
    assert run_lamina(*arguments(folder, data, straight, "--shard", "1/3")).returncode == 0
    assert run_lamina(*arguments(folder, data, straight, "--shard", "2/3", "--beam", "3")) == (
        2,
        "",
        f"lamina: {folder / 'run'}: cannot be resumed: --beam has changed. Choose another --out.\n",
    )


@pytest.mark.parametrize(
    ("source", "target", "reason"),
    [
        ("a dog", "ein Hund", None),
        ("a dog", " ", "empty"),
        ("a dog", "und so weiter " * 10, "repetitive"),
        ("a dog", "x" * 200, "ratio"),
    ],
)
def test_filter_reasons(source: str, target: str, reason: str | None) -> None:
    assert distillation.drop_reason(source, target, Filters(active=("empty", "long")), 1.0) == reason


def test_the_filter_compares_lengths_with_the_usual_ones(straight: Path) -> None:
    document, subject = "a long story " * 300, "the story of a dog"
    usual = distillation.usual_ratio([(document, subject)] * 3 + [("short", "short")])
    filters = distillation.filters_for(load_run(straight).text.for_documents(False, 80))
    assert distillation.drop_reason(document, subject, filters, usual) is None
    assert distillation.drop_reason(document, "x" * 900, filters, usual) == "ratio"
    assert filters.active == ("empty",)
    assert distillation.filters_for(load_run(straight).text).active == ("empty", "long")


def test_a_student_may_be_a_system_and_trains_on_the_given_device(
    folder: Path, data: Path, straight: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Training] = []
    monkeypatch.setattr(distillation, "train_all", lambda trainings, *others: started.extend(trainings))
    command = ["transformer" if each == folder / "student.yaml" else each for each in arguments(folder, data, straight)]
    assert run_lamina(*command, "--device", "cpu").returncode == 0
    assert started[0].command()[4:5] == ["transformer"]
    assert started[0].command()[started[0].command().index("--device") + 1] == "cpu"


def with_outputs(plan: distillation.Distillation, *outputs: str) -> distillation.Distillation:
    (plan.folder / "outputs").mkdir(parents=True)
    records = "".join(f"{json.dumps({'text': text}, ensure_ascii=False)}\n" for text in outputs)
    (plan.folder / "outputs" / "000000.jsonl").write_text(records)
    return plan


def test_line_separators_inside_an_output_are_kept(folder: Path, data: Path, straight: Path) -> None:
    (folder / "some.en").write_text("A dog.\n")
    plan = with_outputs(make_plan(folder, data, straight), "Ein\u2028Hund.")
    files, counts = distillation.write_training_text(plan, load_run(straight).text)
    assert counts == {"kept": 1}
    assert list(files.pairs()) == [("A dog.", "Ein\u2028Hund.")]


def test_both_sides_may_have_the_same_language(folder: Path, data: Path, straight: Path) -> None:
    (folder / "some.en").write_text("A dogs.\n")
    plan, text = with_outputs(make_plan(folder, data, straight), "A dog."), load_run(straight).text
    english = replace(text, target=replace(text.target, language="en"))
    assert list(distillation.write_training_text(plan, english)[0].pairs()) == [("A dogs.", "A dog.")]


@pytest.mark.slow
def test_distillation_end_to_end(folder: Path, data: Path, straight: Path) -> None:
    more = ("--target", folder / "some.de", "--test", folder / "some.en", folder / "some.de")
    first = run_lamina(*arguments(folder, data, straight, *more))
    assert first.returncode == 0, first.stderr
    head, *rows = first.stdout.splitlines()
    assert head.split() == ["system", "layers", "parameters", "BLEU", "difference", "p", "sentences/s", "speed"]
    assert [row.split()[0] for row in rows] == ["teacher", "student", "on"]
    report = json.loads((folder / "run" / "distill" / "report.json").read_text())
    assert [row["layers"] for row in report] == ["2+2", "3+1", "3+1"]
    assert run_lamina("translate", folder / "run", stdin="A dog runs.\n").returncode == 0
    again = run_lamina(*arguments(folder, data, straight, *more))
    assert again.returncode == 0, again.stderr


@pytest.mark.slow
def test_a_killed_distillation_resumes(folder: Path, data: Path, straight: Path) -> None:
    """SIGKILL after the first translations and after the student's first checkpoint: the student is the same."""
    words = arguments(folder, data, straight, "--set", "train.max_steps=60")
    whole = run_lamina(*words)
    assert whole.returncode == 0, whole.stderr
    run = (folder / "run").rename(folder / "whole")
    for reached in ("distill/outputs/000000.jsonl", "checkpoints/step_000003"):
        child = subprocess.Popen([sys.executable, "-c", IN_CHUNKS, *words])
        while not (folder / "run" / reached).exists():
            assert child.poll() is None
            time.sleep(0.01)
        child.kill()
        assert child.wait() == -signal.SIGKILL
    assert not (folder / "run" / "checkpoints" / "step_000060").exists()
    resumed = run_lamina(*words)
    assert resumed.returncode == 0, resumed.stderr
    student = Path("model", "model.safetensors")
    assert (folder / "run" / student).read_bytes() == (run / student).read_bytes()
