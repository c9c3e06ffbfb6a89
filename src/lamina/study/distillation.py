"""Sequence-level knowledge distillation (Kim and Rush 2016): a student learns what its teacher writes.

RUN/distill/outputs/000000.jsonl …   the teacher's translations, a file for every chunk of sources
RUN/distill/text/train.*             what was kept of them, mixed with the references
RUN/distill/data                     the same, prepared with the teacher's own text pipeline
RUN                                  the student's run
RUN/distill/references               a student of the same recipe that learns from the references alone

Every part that is complete is not done again, so that the same command resumes.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from lamina.base.files import digest, write_file
from lamina.base.reading import damage_named, read_json, read_lines
from lamina.corpus.filters import Filters
from lamina.corpus.plan import Plan
from lamina.corpus.prepare import prepare
from lamina.corpus.prepared import PreparedData
from lamina.corpus.reading import TwoFiles
from lamina.errors import DataError, UsageError
from lamina.recipe.loader import load_recipe_for
from lamina.store.loading import find_model_folder
from lamina.study.launch import Show, Training, train_all
from lamina.translation import load

CHUNK = 2000  # sources of one file: what a killed process has to translate again
LOOP, TIMES = 4, 4  # an output that writes an n-gram of this size so many times has lost its way
Progress = Callable[[str, int, int | None], None]


@dataclass(frozen=True)
class Distillation:
    """Everything that decides what a student learns from."""

    teachers: tuple[Path, ...]
    student: Path  # a recipe's file or name
    sources: tuple[Path, ...]
    targets: tuple[Path, ...]  # references of the sources; none, or as many
    valid: tuple[Path, Path]
    out: Path
    beam: int
    overrides: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        """Where everything is that is not the student."""
        return self.out / "distill"

    def check(self) -> None:
        """Files must be there, and references belong to sources."""
        if self.targets and len(self.targets) != len(self.sources):
            counts = f"{len(self.targets)} and {len(self.sources)}"
            raise UsageError(f"There must be as many --target as --source files, but there are {counts}.")
        for path in (*self.sources, *self.targets, *self.valid):
            if not path.is_file():
                raise DataError(f"{path}: not found.")

    def begin(self) -> None:
        """Record what is distilled, or check that it is the same as before."""
        facts = {
            "teachers": [digest(find_model_folder(teacher) / "model.safetensors") for teacher in self.teachers],
            "sources": [digest(path) for path in self.sources],
            "targets": [digest(path) for path in self.targets],
            "beam": self.beam,
        }
        record = self.folder / "distillation.json"
        if record.is_file():
            before = read_json(record)
            changed = [key for key, value in facts.items() if before.get(key) != value]
            if changed:
                raise UsageError(f"{self.out}: cannot be resumed with other {changed[0]}. Choose another --out.")
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_file(record, json.dumps(facts, indent=2) + "\n")
        except OSError as error:
            raise DataError(f"{self.out}: cannot be written ({error.strerror}).") from error


def translate_sources(
    plan: Distillation, shard: tuple[int, int], int8: bool, device: str, threads: int | None, progress: Progress
) -> int:
    """Translate this shard's chunks that are not there yet; how many chunks of any shard are still missing."""
    folder = plan.folder / "outputs"
    folder.mkdir(exist_ok=True)
    number, count = shard
    chunks = list(read_chunks(plan.sources))
    own = [index for index in range(len(chunks)) if index % count == number - 1]
    missing = [index for index in own if not chunk_file(folder, index).is_file()]
    if missing:
        teacher = load(*plan.teachers, device=device, threads=threads, int8=int8)
        for done, index in enumerate(missing):
            progress("translating", len(own) - len(missing) + done, len(own))
            results = teacher.translate(chunks[index], beam=plan.beam)
            records = [{"text": each.text, "score": each.score, "tokens": len(each.tokens)} for each in results]
            lines = "".join(f"{json.dumps(record, ensure_ascii=False)}\n" for record in records)
            write_file(chunk_file(folder, index), lines)
        progress("translating", len(own), len(own))
    return sum(not chunk_file(folder, index).is_file() for index in range(len(chunks)))


def read_chunks(sources: Sequence[Path]) -> Iterator[list[str]]:
    """All lines of all files, so many at a time."""
    lines = (line for path in sources for line in read_lines(path))
    while chunk := list(islice(lines, CHUNK)):
        yield chunk


def chunk_file(folder: Path, index: int) -> Path:
    """Where a chunk's translations are."""
    return folder / f"{index:06d}.jsonl"


def write_training_text(plan: Distillation, languages: Sequence[str]) -> dict[str, int]:
    """Pairs of sources and the teacher's outputs, then of sources and references; counts of what was dropped."""
    folder = plan.folder / "text"
    folder.mkdir(exist_ok=True)
    counts: Counter[str] = Counter()
    pairs: list[tuple[str, str]] = []
    for index, chunk in enumerate(read_chunks(plan.sources)):
        path = chunk_file(plan.folder / "outputs", index)
        with damage_named(path):
            targets = [str(json.loads(line)["text"]) for line in path.read_text(encoding="utf-8").splitlines()]
        if len(targets) != len(chunk):
            raise DataError(
                f"{path}: damaged ({len(targets)} translations of {len(chunk)} lines). Remove it to resume."
            )
        for source, target in zip(chunk, targets, strict=True):
            reason = unfit(source, target)
            counts[reason or "kept"] += 1
            if reason is None:
                pairs.append((source, target))
    for source_file, target_file in zip(plan.sources, plan.targets, strict=False):
        references = [pair for pair in TwoFiles(source_file, target_file).pairs() if all(map(str.strip, pair))]
        counts["references"] += len(references)
        pairs += references
    if not pairs:
        raise DataError(f"{plan.out}: none of the teacher's {sum(counts.values()):,} outputs is fit to learn from.")
    for side, language in enumerate(languages):
        write_file(folder / f"train.{language}", "".join(f"{pair[side]}\n" for pair in pairs))
    write_file(plan.folder / "filter.json", json.dumps(counts, indent=2) + "\n")
    return dict(counts)


def unfit(source: str, target: str) -> str | None:
    """Why a student should not learn a pair: a side is empty, a length odd, or the output runs in circles."""
    words = target.split()
    grams = Counter(tuple(words[at : at + LOOP]) for at in range(len(words) - LOOP + 1))
    if any(count >= TIMES for count in grams.values()):
        return "repeats itself"
    return Filters(max_ratio=4.0).reason(source.strip(), target.strip())


def prepare_text(plan: Distillation, train: TwoFiles, out: Path) -> PreparedData:
    """Data for the student, cut into the teacher's own subwords; of the references nothing is dropped twice."""
    text_from = find_model_folder(plan.teachers[0])
    filters = Filters(active=("empty", "long"))
    wanted = Plan(train=train, valid=TwoFiles(*plan.valid), text_from=text_from, filters=filters)
    return prepare(wanted, out, os.cpu_count() or 1)


def train_student(plan: Distillation, data: PreparedData, run: Path, threads: int, show: Show) -> None:
    """One `lamina train`; a finished one ends at once."""
    recipe = load_recipe_for(data, plan.student, plan.overrides)
    steps = recipe.train.max_steps
    name = "student" if run == plan.out else "references"
    train_all([Training(name, str(plan.student), data.folder, run, steps, plan.overrides, threads)], 1, show)
