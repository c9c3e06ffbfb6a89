"""Random kills and random damage: `python tests/faults/campaign.py --kills 1000 --damaged 10000`.

Every command runs in a copy of this process, which is killed with SIGKILL at a random moment, or is given a file with
random damage. Afterwards nothing may be lost: a killed command, run again, must end with the same bytes as one that was
never killed, and every folder must open. A damaged file must give one line and exit code 2 or 3, or change nothing. The
figures go to stdout as JSON.
"""

# ruff: noqa: E501

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch
import zstandard

from lamina.base.files import digest
from lamina.cli import main
from lamina.demo.grammar import write_demo

RECIPE = """\
name: tiny
system: surface-fusion
model: {size: tiny, d_model: 16, ffn_size: 32, heads: 2, dropout: 0.1, encoder: {layers: 2}, decoder: {layers: 2}}
train: {max_steps: 24, batch_tokens: 256, lr: 2.0e-3, warmup: 8, save_every: 2, validate_every: 8, log_every: 3}
"""
STUDY = "name: s\ndata: data\ntest: [valid.en, valid.de]\nsteps: 9\nbaseline: a\nsystems: {a: {recipe: recipe.yaml}}\n"
M2 = "S This are a sentence .\nA 1 2|||SVA|||is|||REQUIRED|||-NONE-|||0\n\n"
SECONDS, MOST_MEMORY = 120, 3 * 2**30  # that a command may take


@dataclass
class Outcome:
    """How a command ended."""

    code: int  # negative: the signal
    said: str
    memory: int


@dataclass
class Figures:
    """What the campaign has counted."""

    kills: dict[str, int] = field(default_factory=dict)
    damaged: dict[str, int] = field(default_factory=dict)
    refused: int = 0  # damaged files that were refused
    harmless: int = 0  # damaged files that changed nothing, or are still valid
    problems: list[str] = field(default_factory=list)


def run(folder: Path, *words: str, kill_after: float | None = None, stdin: str = "") -> Outcome:
    """A command in a copy of this process, which has imported everything already."""
    log = folder / "log"
    child = os.fork()
    if child == 0:
        os.chdir(folder)
        (folder / "stdin").write_text(stdin)
        for number, (name, flags) in enumerate(
            (("stdin", os.O_RDONLY), ("log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC))
        ):
            os.dup2(os.open(name, flags), number)
        os.dup2(1, 2)
        sys.argv = ["lamina", *words]
        code = 70
        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    limit = time.monotonic() + (SECONDS if kill_after is None else kill_after)
    while True:
        pid, status, usage = os.wait4(child, os.WNOHANG)
        if pid:
            break
        if time.monotonic() > limit:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.002)
    return Outcome(os.waitstatus_to_exitcode(status), log.read_text(errors="replace"), usage.ru_maxrss * 1024)


def prepare(folder: Path) -> list[str]:
    files = [f"{split}.{language}" for split in ("train", "valid") for language in ("en", "de")]
    return [
        "prepare",
        "--train",
        *files[:2],
        "--valid",
        *files[2:],
        "--vocab-size",
        "500",
        "--workers",
        "1",
        "--out",
        "data",
    ]


TRAIN = ["train", "recipe.yaml", "--data", "data", "--out", "run", "--device", "cpu", "--quiet"]
TRANSLATE = ["translate", "run", "--input", "valid.en", "--output", "out.de", "--force", "--quiet", "--beam", "2"]
COMMANDS: dict[str, tuple[list[str], list[str]]] = {  # each with the files that must be the same in the end
    "prepare": (prepare(Path()), ["data/meta.json", "data/train/00000/source.ids", "data/text/subwords.model"]),
    "train": (TRAIN, ["run/model/model.safetensors", "run/checkpoints/step_000024/model.safetensors"]),
    "average": (["average", "run", "--last", "3"], ["run/averaged/model.safetensors"]),
    "translate": (TRANSLATE, ["out.de"]),
    "study": (
        ["study", "study.yaml", "--out", "study", "--quiet"],
        ["study/runs/a-1/model/model.safetensors", "study/study.csv"],
    ),
}


def make_reference(folder: Path) -> dict[str, float]:
    """Everything once without a kill; how long each command takes."""
    write_demo(folder, train=250, valid=30, test=1)
    (folder / "recipe.yaml").write_text(RECIPE)
    (folder / "study.yaml").write_text(STUDY)
    (folder / "gold.m2").write_text(M2)
    (folder / "train.en.zst").write_bytes(zstandard.compress((folder / "train.en").read_bytes()))
    (folder / "train.en.gz").write_bytes(gzip.compress((folder / "train.en").read_bytes()))
    torch.save({"args": argparse.Namespace(arch="x"), "model": {}}, folder / "checkpoint.pt")
    seconds = {}
    for name, (words, _) in COMMANDS.items():
        started = time.monotonic()
        outcome = run(folder, *words)
        assert outcome.code == 0, outcome.said
        seconds[name] = time.monotonic() - started
    return seconds


def kill_at_random(name: str, reference: Path, seconds: float, draw: random.Random, figures: Figures) -> None:
    """Start a command again and again, killing it, until it ends by itself; then compare."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "case"
        shutil.copytree(reference, folder, symlinks=True)
        words, results = COMMANDS[name]
        for made in {"prepare": ["data"], "train": ["run"], "study": ["study"]}.get(name, []):
            shutil.rmtree(folder / made)
        before = (folder / "out.de").read_bytes()
        for _ in range(draw.randint(1, 4)):
            outcome = run(folder, *words, kill_after=draw.random() * seconds * 1.1)
            if outcome.code != -signal.SIGKILL:
                break
            figures.kills[name] = figures.kills.get(name, 0) + 1
            check_after_kill(name, folder, before, figures)
        final = run(folder, *words)
        if final.code != 0:
            figures.problems.append(f"{name}: did not finish: {final.said[-300:]}")
        for path in results:
            if not (folder / path).is_file() or digest(folder / path) != digest(reference / path):
                figures.problems.append(f"{name}: {path} differs")


def check_after_kill(name: str, folder: Path, before: bytes, figures: Figures) -> None:
    """Right after a kill: outputs are whole, and what was there before opens."""
    if name == "translate" and (folder / "out.de").read_bytes() != before:
        figures.problems.append("translate: a killed command changed its output")
    if name in ("train", "average") and (folder / "run" / "checkpoints").is_dir():
        opened = run(folder, "translate", "run", "--beam", "1", "--max-length", "0", "2", stdin="A dog.\n")
        started = any((folder / "run" / "checkpoints").glob("step_??????"))
        if opened.code != 0 and started:
            figures.problems.append(f"{name}: the run does not open: {opened.said[-300:]}")


def damage(content: bytes, draw: random.Random) -> bytes:
    """The content with a random change."""
    place = draw.randrange(len(content) + 1)
    kind = draw.randrange(5)
    if kind == 0 and content:
        place = draw.randrange(len(content))
        return content[:place] + bytes([content[place] ^ (1 << draw.randrange(8))]) + content[place + 1 :]
    if kind == 1:
        return content[:place]
    if kind == 2:
        return content[:place] + draw.randbytes(draw.randint(1, 64)) + content[place:]
    if kind == 3:
        return content[:place] + bytes(draw.randint(1, 512)) + content[place + draw.randint(0, 512) :]
    return draw.randbytes(draw.randint(0, 2000))


ONE_STEP = ["--quiet", "--set", "train.max_steps=1", "--set", "train.warmup=0"]
SHORT = ["--beam", "1", "--max-length", "0", "2"]
READERS: dict[str, list[str]] = {  # a file, and the command that reads it
    **{f"run/model/{name}": ["translate", "run", *SHORT] for name in ("config.json", "model.safetensors", "text.json", "subwords.model")},
    **{f"run/checkpoints/step_000024/{name}": ["average", "run", "--last", "1"] for name in ("model.safetensors", "training_state.pt")},
    **{f"data/{name}": ["train", "recipe.yaml", "--data", "data", "--out", "run2", *ONE_STEP]
       for name in ("meta.json", "text/text.json", "text/subwords.model", "train/00000/shard.json", "train/00000/source.ids", "valid/00000/target.offsets")},
    "recipe.yaml": ["train", "recipe.yaml", "--data", "data", "--out", "run3", *ONE_STEP],
    "run/recipe.yaml": TRAIN, "run/run.json": TRAIN, "run/metrics.jsonl": ["analyze", "gradients", "run", "--force"],
    "study.yaml": ["study", "study.yaml", "--out", "study", "--quiet"],
    "checkpoint.pt": ["import-fairseq", "checkpoint.pt", "--source-dict", "recipe.yaml", "--target-dict", "recipe.yaml", "--out", "imported"],
    "gold.m2": ["score", "--hyp", "hyp", "--ref", "gold.m2", "--metric", "m2"],
    "train.en.zst": ["score", "--hyp", "train.en.zst", "--ref", "train.en"],
    "train.en.gz": ["score", "--hyp", "train.en.gz", "--ref", "train.en"],
}  # fmt: skip


def damage_at_random(name: str, reference: Path, draw: random.Random, figures: Figures) -> None:
    """One damaged file, and the command that reads it."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "case"
        shutil.copytree(reference, folder, symlinks=True)
        (folder / "hyp").write_text("This is a sentence .\n")
        content = (reference / name).read_bytes()
        changed = damage(content, draw)
        (folder / name).write_bytes(changed)
        outcome = run(folder, *READERS[name], stdin="A dog.\n")
    figures.damaged[name] = figures.damaged.get(name, 0) + 1
    what = f"{name} damaged to {len(changed)} bytes of {len(content)}"
    if outcome.memory > MOST_MEMORY:
        figures.problems.append(f"{what}: {outcome.memory / 2**30:.1f} GiB of memory")
    if outcome.code == -signal.SIGKILL:
        figures.problems.append(f"{what}: no answer in {SECONDS} s")
    elif outcome.code not in (0, 2, 3) or "Traceback" in outcome.said or "lamina: unexpected" in outcome.said:
        figures.problems.append(f"{what}: exit {outcome.code}: {outcome.said[-300:]}")
    elif outcome.code == 0:
        figures.harmless += 1
        checked = name.startswith(
            ("run/model/model", "run/model/subwords", "run/checkpoints", "data/train/00000/source", "data/valid")
        )
        if checked and changed != content:
            figures.problems.append(f"{what}: was not noticed")
    else:
        figures.refused += 1


def campaign(kills: int, damaged: int, seed: int, show: Callable[[str], None] = print) -> Figures:
    """So many kills and damaged files, in turn over commands and kinds of files."""
    torch.set_num_threads(1)
    draw, figures = random.Random(seed), Figures()
    with tempfile.TemporaryDirectory() as scratch:
        reference = Path(scratch) / "reference"
        reference.mkdir()
        seconds = make_reference(reference)
        while sum(figures.kills.values()) < kills:
            for name in COMMANDS:
                kill_at_random(name, reference, seconds[name], draw, figures)
            show(f"{sum(figures.kills.values())} of {kills} kills, {len(figures.problems)} problems")
        while sum(figures.damaged.values()) < damaged:
            for name in READERS:
                damage_at_random(name, reference, draw, figures)
            show(f"{sum(figures.damaged.values())} of {damaged} damaged files, {len(figures.problems)} problems")
    return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--damaged", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    began = time.monotonic()
    found = campaign(options.kills, options.damaged, options.seed, lambda line: print(line, file=sys.stderr))
    result = {**vars(found), "seed": options.seed, "minutes": round((time.monotonic() - began) / 60, 1)}
    print(json.dumps(result, indent=1))
    sys.exit(bool(found.problems))
