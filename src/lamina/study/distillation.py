"""Sequence-level knowledge distillation (Kim and Rush 2016): a student learns from its teacher's translations.

RUN/distill/outputs/000000.jsonl …   the teacher's translations, one file per chunk of sources
RUN/distill/text/{source,target}.*   the training text: those that pass the filter, mixed with the references
RUN/distill/data                     the same, prepared with the teacher's text pipeline
RUN                                  the student's run
RUN/distill/references               the baseline: the same student, trained on the references alone

Finished parts are not repeated, so the same command resumes.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import median

from lamina.base.files import digest, write_file
from lamina.base.progress import Progress
from lamina.base.reading import damage_named, read_json, read_lines
from lamina.base.threads import usable_cores
from lamina.base.wording import counted
from lamina.corpus.filters import Filters
from lamina.corpus.plan import Plan, TextOptions
from lamina.corpus.prepare import prepare
from lamina.corpus.prepared import PreparedData
from lamina.corpus.reading import TwoFiles
from lamina.errors import DataError, UsageError
from lamina.recipe.loader import load_recipe_for
from lamina.store.loading import find_model_folder
from lamina.study.launch import Show, Training, train_all
from lamina.text.pipeline import TextPipeline
from lamina.translation import load
from lamina.translation.shards import InputPart

OPTIONS = {"teachers": "TEACHER", "sources": "--source", "targets": "--target", "beam": "--beam", "mix": "--no-mix"}
CHUNK = 2000  # sources per file; an interrupted chunk is translated again
LOOP, TIMES = 4, 4  # an output in which an n-gram of size LOOP occurs TIMES times is dropped
MAX_RATIO = 4.0  # an output this many times longer or shorter than usual for its source is dropped


@dataclass(frozen=True)
class Distillation:
    """The settings of a distillation."""

    teachers: tuple[Path, ...]
    student: Path  # the file or name of a recipe
    sources: tuple[Path, ...]
    targets: tuple[Path, ...]  # references: one file per source file, or none
    valid: tuple[Path, Path]
    out: Path
    beam: int
    mix: bool = True  # whether the student also learns from the references
    overrides: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        """Folder of everything except the student's run."""
        return self.out / "distill"

    def check(self) -> None:
        """Raise unless all files exist and each source file has a target file, if any has."""
        if self.targets and len(self.targets) != len(self.sources):
            counts = f"targets: {len(self.targets)}, sources: {len(self.sources)}"
            raise UsageError(f"Give one --target per --source ({counts}).")
        for path in (*self.sources, *self.targets, *self.valid):
            if not path.is_file():
                raise DataError(f"{path}: not found.")

    def begin(self) -> None:
        """Record the settings, or check that they match those of an earlier run."""
        facts = {
            "teachers": [digest(find_model_folder(teacher) / "model.safetensors") for teacher in self.teachers],
            "sources": [digest(path) for path in self.sources],
            "targets": [digest(path) for path in self.targets],
            "beam": self.beam,
            "mix": self.mix,
        }
        record = self.folder / "distillation.json"
        if not record.is_file():
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                write_file(record, json.dumps(facts, indent=2) + "\n")
            except OSError as error:
                if not record.is_file():  # otherwise another shard has just written it
                    raise DataError(f"{self.out}: cannot be written ({error.strerror}).") from error
        before = read_json(record)
        changed = [key for key, value in facts.items() if before.get(key) != value]
        if changed:
            raise UsageError(f"{self.out}: cannot be resumed: {OPTIONS[changed[0]]} has changed. Choose another --out.")


def translate_sources(
    plan: Distillation, shard: InputPart, int8: bool, device: str, threads: int | None, progress: Progress
) -> int:
    """Translate the missing chunks of this shard; return the number of chunks still missing in all shards."""
    folder = plan.folder / "outputs"
    folder.mkdir(exist_ok=True)
    chunks = list(read_chunks(plan.sources))
    own = [index for index in range(len(chunks)) if index % shard.count == shard.number - 1]
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
    """Yield the lines of all files in chunks."""
    lines = (line for path in sources for line in read_lines(path))
    while chunk := list(islice(lines, CHUNK)):
        yield chunk


def chunk_file(folder: Path, index: int) -> Path:
    """Path of a chunk's translations."""
    return folder / f"{index:06d}.jsonl"


def write_training_text(plan: Distillation, text: TextPipeline) -> tuple[TwoFiles, dict[str, int]]:
    """Write pairs with the teacher's outputs, then those with references; return the files and the filter's counts."""
    translated = list(read_outputs(plan))
    filters, usual = filters_for(text), usual_ratio(translated)
    reasons = [drop_reason(*pair, filters, usual) for pair in translated]
    pairs = [pair for pair, reason in zip(translated, reasons, strict=True) if reason is None]
    if not pairs:
        raise DataError(f"{plan.out}: all outputs of the teacher were dropped by the filter.")
    counts = Counter(reason or "kept" for reason in reasons)
    for source_file, target_file in zip(plan.sources, plan.targets, strict=False) if plan.mix else ():
        references = [pair for pair in TwoFiles(source_file, target_file).pairs() if all(map(str.strip, pair))]
        counts["references"] += len(references)
        pairs += references
    folder = plan.folder / "text"
    folder.mkdir(exist_ok=True)
    files = (folder / f"source.{text.source.language}", folder / f"target.{text.target.language}")
    for side, file in enumerate(files):
        write_file(file, "".join(f"{pair[side]}\n" for pair in pairs))
    write_file(plan.folder / "filter.json", json.dumps(counts, indent=2) + "\n")
    return TwoFiles(*files), dict(counts)


def read_outputs(plan: Distillation) -> Iterator[tuple[str, str]]:
    """Yield every source with the teacher's output."""
    for index, chunk in enumerate(read_chunks(plan.sources)):
        path = chunk_file(plan.folder / "outputs", index)
        with damage_named(path):
            targets = [str(json.loads(line)["text"]) for line in read_lines(path)]
        if len(targets) != len(chunk):
            found = f"{counted(len(targets), 'translation')} of {counted(len(chunk), 'line')}"
            raise DataError(f"{path}: damaged ({found}). Delete it to resume.")
        yield from zip(chunk, targets, strict=True)


def filters_for(text: TextPipeline) -> Filters:
    """Drop empty pairs, and long ones unless the teacher truncates its sources; ratios are compared with the usual."""
    return Filters(active=("empty",) if text.source.longest else ("empty", "long"))


def usual_ratio(pairs: Sequence[tuple[str, str]]) -> float:
    """The median length ratio of target and source."""
    return median(length_ratio(*pair) for pair in pairs) if pairs else 1.0


def length_ratio(source: str, target: str) -> float:
    """The ratio of the lengths in characters, each plus 10 to tolerate short lines."""
    return (len(target.strip()) + 10) / (len(source.strip()) + 10)


def drop_reason(source: str, target: str, filters: Filters, usual: float) -> str | None:
    """Reason to drop a pair (an empty side, an unusual length ratio, a repetitive output), or None."""
    words = target.split()
    ngrams = Counter(tuple(words[start : start + LOOP]) for start in range(len(words) - LOOP + 1))
    if any(count >= TIMES for count in ngrams.values()):
        return "repetitive"
    reason = filters.reason(source.strip(), target.strip())
    if reason is None and not 1 / MAX_RATIO <= length_ratio(source, target) / usual <= MAX_RATIO:
        return "ratio"
    return reason


def prepare_text(plan: Distillation, train: TwoFiles, text: TextPipeline, out: Path) -> PreparedData:
    """Prepare training data with the teacher's text pipeline; length ratios are already filtered."""
    options = TextOptions(text_from=find_model_folder(plan.teachers[0]))
    preparation = Plan(train=train, valid=TwoFiles(*plan.valid), text=options, filters=filters_for(text))
    return prepare(preparation, out, usable_cores())


def train_student(
    plan: Distillation, data: PreparedData, run: Path, device: str, threads: int | None, show: Show
) -> None:
    """Run `lamina train`, which returns immediately if the run is finished."""
    recipe = load_recipe_for(data, plan.student, plan.overrides)
    steps = recipe.train.max_steps
    name = "student" if run == plan.out else "references"
    training = Training(name, str(plan.student), data.folder, run, steps, plan.overrides, threads, device)
    train_all([training], 1, show)
