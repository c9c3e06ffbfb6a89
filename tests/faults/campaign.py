"""Random kills and random damage: `python tests/faults/campaign.py --kills 1000 --damaged 10000`.

Every command runs in a copy of this process, which is killed at a random moment, or is given a file with random damage.
There are three kinds of kills: SIGKILL after a random share of the command's CPU time, SIGKILL before or after a random
operation on a file, and the kernel's SIGXFSZ in the middle of a write. Afterwards nothing may be lost: a killed
command, run again, must end with the same bytes as one that was never killed, and what was there opens at every moment.
A damaged file must give a short message that names it and exit code 2 or 3, or change nothing.

The figures go to a JSON file; the same command resumes a campaign that was stopped.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import torch
import typer
from cases import COMMANDS, READERS, SHORT, STDIN, make_reference
from child import ForkedProcess, Kill, Outcome, adopt_orphans, run, run_here

from lamina.base.files import digest, write_file
from lamina.engine.compilation import ready_folder
from lamina.study import launch

MOST_MEMORY = 2 * 2**30
VALUES = (b"1000000000", b"-1", b"0", b"NaN", b"1e308", b'"x"', b"null", b"[]", b"18446744073709551616")
MOST_LINES = 12  # of a message: all problems of a recipe are reported together


class Campaign:
    """Numbered trials, each with its own random generator, so that a failed one can be repeated alone."""

    def __init__(self, reference: Path, scratch: Path, seed: int) -> None:
        self.reference, self.scratch, self.seed = reference, scratch, seed
        self.wholes: dict[str, Outcome] = {}
        self.results: dict[str, str] = {}  # digests of readers' output without damage
        self.counts: Counter[str] = Counter()
        self.problems: list[str] = []

    def prepare(self) -> None:
        """Create the reference and record each reader's output for undamaged files."""
        self.wholes = make_reference(self.reference)
        for words, needs in {reader.words: reader.needs for reader in READERS.values()}.items():
            run_here(self.copy(needs), words.split(), STDIN)  # so that no copy has to import anything
        for name, reader in READERS.items():
            folder = self.copy(reader.needs)
            outcome = run(folder, reader.words.split(), STDIN)
            assert outcome.code == 0, (name, outcome.said)
            self.results[name] = digest(folder / reader.result)

    def copy(self, names: tuple[str, ...]) -> Path:
        """Copy parts of the reference to a fresh folder."""
        folder = self.scratch / "case"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for name in dict.fromkeys(names):
            path = self.reference / name
            (shutil.copytree if path.is_dir() else shutil.copy)(path, folder / name)
        return folder

    def kill(self, number: int) -> None:
        """Start and kill a command repeatedly until it finishes, then compare its output."""
        name = list(COMMANDS)[number % len(COMMANDS)]
        command, chance = COMMANDS[name], random.Random(f"{self.seed} kill {number}")
        needs = {"data", "run", "recipe.yaml", "study.yaml", "train.en", "train.de", "valid.en", "valid.de"}
        folder = self.copy(tuple(needs - set(command.makes)))
        (folder / "out.de").write_text("mine\n")
        if name == "average":
            run(folder, ["average", "run", "--last", "2"])
        before = self.state(name, folder)
        problems = []
        for _ in range(chance.randint(1, 4)):
            kill = Kill.draw(chance)
            outcome = run(folder, command.words.split(), kill=kill, whole=self.wholes[name])
            if not outcome.killed:
                break
            self.counts[f"kills/{name}/{kill.way}"] += 1
            if re.search("Traceback|lamina: unexpected", outcome.said):
                problems.append(outcome.said[-300:])
            problems += self.check_after_kill(name, folder, before)
            before = self.state(name, folder)
        final = run(folder, command.words.split())
        if final.code != 0:
            problems.append(f"did not finish: {final.said[-300:]}")
        for path in command.results:
            if not (folder / path).is_file() or digest(folder / path) != digest(self.reference / path):
                problems.append(f"{path} differs")
        if name == "train" and losses(folder / "run") != losses(self.reference / "run"):
            problems.append("the losses in metrics.jsonl differ")
        leftovers = [path.name for path in folder.rglob("*.partial")]
        if leftovers:
            problems.append(f"left {', '.join(leftovers)}")
        self.problems += [f"kill {number}, {name}: {problem}" for problem in problems]

    def state(self, name: str, folder: Path) -> Any:
        """State that must never go backwards or be lost."""
        if name == "translate":
            return (folder / "out.de").read_bytes()
        if name == "average":
            return digest(folder / "run" / "averaged" / "model.safetensors")
        checkpoints = (folder / ("study/runs/a-1" if name == "study" else "run") / "checkpoints").glob("step_??????")
        return max((path.name for path in checkpoints), default="")

    def check_after_kill(self, name: str, folder: Path, before: Any) -> list[str]:
        """Check right after a kill that outputs are complete and earlier files still open."""
        try:
            now = self.state(name, folder)
        except OSError as error:
            return [f"a result is lost: {error}"]
        if name == "translate":
            complete = (self.reference / "out.de").read_bytes()
            return [] if now in (before, complete) else ["a killed command changed its output"]
        if name == "average":
            complete = digest(self.reference / "run" / "averaged" / "model.safetensors")
            problems = [] if now in (before, complete) else ["a killed command changed averaged/"]
            return problems + self.open(folder, "run/averaged")
        if name == "prepare":
            meta = folder / "data" / "meta.json"
            whole = not meta.exists() or digest(meta) == digest(self.reference / "data" / "meta.json")
            return [] if whole else ["data/meta.json is not whole"]
        if now < before:
            return [f"the newest checkpoint was {before} and is {now or 'none'}"]
        return self.open(folder, "study/runs/a-1" if name == "study" else "run") if now else []

    def open(self, folder: Path, run_folder: str) -> list[str]:
        opened = run(folder, ["translate", run_folder, *SHORT.split()], STDIN)
        return [f"{run_folder} does not open: {opened.said[-300:]}"] if opened.code else []

    def damage(self, number: int) -> None:
        """Damage a file and run the command that reads it."""
        name = list(READERS)[number % len(READERS)]
        reader, chance = READERS[name], random.Random(f"{self.seed} damage {number}")
        folder = self.copy(reader.needs)
        content = (folder / name).read_bytes()
        how, changed = damage(content, chance)
        (folder / name).write_bytes(changed)
        outcome = run(folder, reader.words.split(), STDIN)
        result = folder / reader.result
        same = outcome.code == 0 and result.is_file() and digest(result) == self.results[name]
        verdict = "refused" if outcome.code in (2, 3) else "unchanged" if same else "valid"
        self.counts[f"damaged/{name}/{verdict}"] += 1
        problem = self.judge(name, outcome, changed == content or same)
        if problem:
            self.problems.append(f"damage {number}, {name} ({how}): {problem}")

    def judge(self, name: str, outcome: Outcome, harmless: bool) -> str | None:
        """Describe how a command mishandled a damaged file, if it did."""
        if outcome.memory > MOST_MEMORY:
            return f"{outcome.memory / 2**30:.1f} GiB of memory"
        if outcome.code not in (0, 2, 3) or re.search("Traceback|lamina: unexpected", outcome.said):
            return f"exit {outcome.code}: {outcome.said[-300:]}"
        if outcome.code == 0:
            return "was not noticed" if READERS[name].protected and not harmless else None
        named = name.endswith(".yaml") or any(part in outcome.said for part in Path(name).parts)  # YAML names others
        if len(outcome.said.splitlines()) > MOST_LINES or not named:
            return f"an unclear message: {outcome.said[-300:]}"
        return None


def losses(folder: Path) -> dict[Any, Any]:
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return {(record["kind"], record["step"]): record.get("loss") for record in records}


def damage(content: bytes, chance: random.Random) -> tuple[str, bytes]:
    """Apply a random change to the content."""
    place = chance.randrange(len(content) + 1)
    start, rest = content[:place], content[place:]
    how = chance.choice(("flip", "truncate", "insert", "zeros", "repeat", "number", "noise"))
    if how == "flip" and rest:
        return how, start + bytes([rest[0] ^ (1 << chance.randrange(8))]) + rest[1:]
    if how == "insert":
        return how, start + chance.randbytes(chance.randint(1, 64)) + rest
    if how == "zeros":
        return how, start + bytes(chance.randint(1, 512)) + rest[chance.randint(0, 512) :]
    if how == "repeat":
        return how, start + rest[: chance.randint(1, 512)] + rest
    if how == "number":  # replace the next number by a huge or negative one, NaN or text
        return how, start + re.sub(rb"\d+", chance.choice(VALUES), rest, count=1)
    if how == "noise":
        return how, chance.randbytes(chance.randint(0, 2000))
    return "truncate", start


def summarise(counts: Counter[str]) -> dict[str, Any]:
    """Count trials by kind and outcome."""
    found: dict[str, Any] = {}
    for key, count in sorted(counts.items()):
        kind, name, what = key.split("/", 1)[0], key.split("/", 1)[1].rpartition("/")[0], key.rpartition("/")[2]
        found.setdefault(kind, {}).setdefault(name, {})[what] = count
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=1000, help="with SIGKILL; kills within writes come on top")
    parser.add_argument("--damaged", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--summary", type=Path, default=Path("build/faults.json"), help="resumed if it exists")
    parser.add_argument("--trial", help="repeat one, such as 'damage 17'")
    options = parser.parse_args()
    torch.set_num_threads(1)
    ready_folder()
    typer.main.get_command = cache(typer.main.get_command)  # once, not in every fork
    launch.subprocess = argparse.Namespace(Popen=ForkedProcess)  # type: ignore[attr-defined]
    launch.POLL = 0.01
    adopt_orphans()
    with tempfile.TemporaryDirectory() as scratch:
        reference = Path(scratch) / "reference"
        reference.mkdir()
        campaign = Campaign(reference, Path(scratch), options.seed)
        campaign.prepare()
        gc.freeze()
        if options.trial:
            kind, number = options.trial.split()
            getattr(campaign, kind)(int(number))
            print(json.dumps({**summarise(campaign.counts), "problems": campaign.problems}, indent=1))
            return bool(campaign.problems)
        return carry_out(campaign, options)


def carry_out(campaign: Campaign, options: argparse.Namespace) -> int:
    """Run all missing trials; the summary is always up to date."""
    options.summary.parent.mkdir(parents=True, exist_ok=True)
    asked = {"seed": options.seed, "kills": options.kills, "damaged": options.damaged}
    before: dict[str, Any] = json.loads(options.summary.read_text()) if options.summary.is_file() else {}
    if before and before["asked"] != asked:
        sys.exit(f"{options.summary}: is of another campaign, {before['asked']}. Choose another --summary.")
    trials = Counter(before.get("trials", {}))
    campaign.counts.update(before.get("counts", {}))
    campaign.problems += before.get("problems", [])
    began, used = (time.monotonic(), time.process_time() + children_seconds())

    def save() -> None:
        known = {
            "asked": asked,
            "complete": sigkills(campaign.counts) >= options.kills and trials["damage"] >= options.damaged,
            "sigkills": sigkills(campaign.counts),
            "kills_within_writes": sum(count for key, count in campaign.counts.items() if key.endswith("/write")),
            "damaged_files": trials["damage"],
            **{
                verdict: sum(count for key, count in campaign.counts.items() if key.endswith(f"/{verdict}"))
                for verdict in ("refused", "unchanged", "valid")
            },
            "minutes": round(before.get("minutes", 0) + (time.monotonic() - began) / 60, 1),
            "cpu_minutes": round(
                before.get("cpu_minutes", 0) + (time.process_time() + children_seconds() - used) / 60, 1
            ),
            "by_kind": summarise(campaign.counts),
            "problems": campaign.problems,
            "trials": trials,
            "counts": campaign.counts,
        }
        write_file(options.summary, json.dumps(known, indent=1) + "\n")

    turn = 0
    while sigkills(campaign.counts) < options.kills or trials["damage"] < options.damaged:
        share = options.damaged * sigkills(campaign.counts) / max(options.kills, 1)  # both advance alike
        kind = "kill" if sigkills(campaign.counts) < options.kills and trials["damage"] >= share else "damage"
        getattr(campaign, kind)(trials[kind])
        trials[kind] += 1
        turn += 1
        if turn % 50 == 0:
            save()
            kills, files = sigkills(campaign.counts), trials["damage"]
            done = f"{kills} of {options.kills} kills, {files} of {options.damaged} damaged files"
            print(f"{done}, {len(campaign.problems)} problems", file=sys.stderr, flush=True)
    save()
    print(options.summary.read_text())
    return bool(campaign.problems)


def sigkills(counts: Counter[str]) -> int:
    return sum(count for key, count in counts.items() if key.startswith("kills/") and not key.endswith("/write"))


def children_seconds() -> float:
    times = os.times()
    return times.children_user + times.children_system


if __name__ == "__main__":
    sys.exit(main())
