"""From raw parallel text to a prepared data folder, in bounded memory, restartable at any moment."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lamina.base.files import atomic_folder, digest, partial_name, remove, write_file
from lamina.corpus.cleaning import Cleaning, clean
from lamina.corpus.encoding import count_words, encode_pairs
from lamina.corpus.filters import Filters
from lamina.corpus.m2 import M2File
from lamina.corpus.prepared import FORMAT, META, PreparedData
from lamina.corpus.reading import OneFile, Pair, TwoFiles
from lamina.corpus.report import write_report
from lamina.corpus.shards import Shard, ShardWriter, id_type
from lamina.errors import DataError, UsageError
from lamina.text.normalise import normalise
from lamina.text.pipeline import TextPipeline, make_pipeline
from lamina.text.subwords import Kind, count_vocabulary, learn_bpe, learn_sentencepiece, read_codes, read_text
from lamina.text.tokenise import MosesTokeniser

PLAN, FAILED = "plan.json", "failed-plan.json"  # a plan that could not be carried out gives way to another
PARTS, REPORT = ("text", "train", "valid", "test"), "report.md"
SHARD_PAIRS = 2**19
LEARN_CHARACTERS = 20_000_000  # SentencePiece learns from an even sample of at most this much text

PairSource = TwoFiles | OneFile | M2File
Progress = Callable[[str, int, int | None], None]  # stage, pairs done, pairs in all if known


def no_progress(stage: str, done: int, total: int | None) -> None:
    """For those who do not watch."""


@dataclass(frozen=True)
class Plan:
    """Everything that decides what a prepared folder holds."""

    train: PairSource
    valid: PairSource
    test: PairSource | None = None
    subwords: Kind = "sentencepiece"
    vocab_size: int | None = None  # None: 8,000, or all there is with given codes and segmented text
    bpe_codes: Path | None = None
    separate_vocab: bool = False
    pretokenized: bool = False
    text_from: Path | None = None  # a folder with the text pipeline of other data or of a model: nothing is learned
    languages: tuple[str, str] | None = None  # None: from the names of the training files
    filters: Filters = field(default_factory=Filters)
    sentences: bool = False  # whether sentence boundaries of the source are kept
    max_source: int | None = None  # subwords of a source; longer ones are truncated

    def check(self) -> None:
        """Options must fit together."""
        if self.bpe_codes is not None and self.subwords != "bpe":
            raise UsageError(f"--bpe-codes needs --subwords bpe, but it is `{self.subwords}`.")
        if self.text_from is not None and (self.vocab_size, self.bpe_codes) != (None, None):
            raise UsageError("--text-from brings its own subwords: leave --vocab-size and --bpe-codes out.")
        for split, source in self.splits().items():
            for path in source.paths:
                if not path.is_file():
                    raise DataError(f"{path}: not found (the {split} data).")

    def splits(self) -> dict[str, PairSource]:
        """The parts of the data by name."""
        parts = {"train": self.train, "valid": self.valid, "test": self.test}
        return {name: source for name, source in parts.items() if source is not None}

    def find_languages(self) -> tuple[str, str]:
        """As given, or the suffixes of the training files before any compression's."""
        if self.languages is not None:
            return self.languages
        if not isinstance(self.train, TwoFiles):
            return ("source", "target")
        names = [path.with_suffix("") if path.suffix in (".gz", ".zst") else path for path in self.train.paths]
        return (names[0].suffix.lstrip(".") or "source", names[1].suffix.lstrip(".") or "target")

    def describe(self) -> dict[str, Any]:
        """The plan as JSON, with a digest of every input: two equal descriptions give equal folders."""
        return {
            "format": FORMAT,
            "inputs": {
                split: [{"name": path.name, "sha256": digest(path)} for path in source.paths]
                for split, source in self.splits().items()
            },
            "fields": [getattr(source, "fields", None) for source in self.splits().values()],
            "subwords": self.subwords,
            "vocab_size": self.vocab_size,
            "bpe_codes": None if self.bpe_codes is None else digest(self.bpe_codes),
            "separate_vocab": self.separate_vocab,
            "pretokenized": self.pretokenized,
            "text_from": None if self.text_from is None else TextPipeline.load(self.text_from).digests(),
            "languages": list(self.find_languages()),
            **self._describe_documents(),
            "filters": {
                "active": list(self.filters.active),
                "max_characters": self.filters.max_characters,
                "max_ratio": self.filters.max_ratio,
            },
        }

    def _describe_documents(self) -> dict[str, Any]:
        """Nothing where sources are sentences, so that plans from before documents are still the same."""
        breaks = {getattr(source, "line_break", " ") for source in self.splits().values()} - {" "}
        if not (self.sentences or self.max_source or breaks):
            return {}
        how = {"sentences": self.sentences, "max_source": self.max_source, "line_breaks": sorted(breaks)}
        return {"documents": how}


def prepare(plan: Plan, out: Path, workers: int = 1, progress: Progress = no_progress) -> PreparedData:
    """Carry a plan out; after an interruption the same call goes on where it stopped."""
    plan.check()
    for source in plan.splits().values():
        for path in source.paths:
            if out.resolve() in path.resolve().parents:
                raise UsageError(f"{path}: lies in the folder that is to be written, {out}. Choose another folder.")
    try:
        out.mkdir(parents=True, exist_ok=True)
        description = json.loads(json.dumps(plan.describe()))
        if not begin(out, description):
            return PreparedData(out)
        run_stages(plan, out, description, workers, progress)
    except OSError as error:
        raise DataError(f"{out}: cannot be written ({error.strerror}). Nothing is lost: run it again.") from error
    return PreparedData(out)


def run_stages(plan: Plan, out: Path, description: dict[str, Any], workers: int, progress: Progress) -> None:
    """Every stage that is not finished yet."""
    try:
        cleaning = clean(with_progress(plan.train.pairs(), "reading", None, progress), plan.filters)
        if cleaning.kept == 0:
            raise DataError(f"No training pair is left of {len(cleaning.keep):,}: {summary(cleaning)}.")
        pipeline = learn_text(plan, cleaning, out, workers, progress)
        for split, source in plan.splits().items():
            keep = cleaning.keep if split == "train" else None
            total = cleaning.kept if split == "train" else None
            pairs = with_progress(select(source.pairs(), keep), f"encoding {split}", total, progress)
            write_split(pairs, pipeline, out, split, workers)
        finish(plan, out, description, cleaning, pipeline)
    except (DataError, UsageError):
        (out / PLAN).rename(out / FAILED)
        raise


def begin(out: Path, description: dict[str, Any]) -> bool:
    """Whether there is anything to do; a folder made from another plan is refused."""
    path, failed = out / PLAN, out / FAILED
    if failed.exists():
        for name in (*PARTS, REPORT, META):
            remove(out / name)
            remove(partial_name(out / name))
        failed.unlink()
    remove(partial_name(out / PLAN))
    if path.exists():
        before = json.loads(path.read_text(encoding="utf-8"))
        if before != description:
            changed = ", ".join(key for key in {**before, **description} if before.get(key) != description.get(key))
            raise UsageError(f"{out}: holds data of another plan (different: {changed}). Choose another folder.")
        return not (out / META).exists()
    if any(out.iterdir()):
        raise UsageError(f"{out}: is not empty and holds no prepared data. Choose another folder.")
    write_file(path, json.dumps(description, indent=2) + "\n")
    return True


def learn_text(plan: Plan, cleaning: Cleaning, out: Path, workers: int, progress: Progress) -> TextPipeline:
    """The text pipeline in `out/text`; learned from the training pairs unless an earlier run has finished it."""
    folder = out / "text"
    if folder.exists():
        return TextPipeline.load(folder)
    if plan.text_from is None:
        moses = plan.subwords == "bpe" and not plan.pretokenized
        progress("learning subwords", 0, None)
        learn = learn_pieces if plan.subwords == "sentencepiece" else learn_words
        files = learn(plan, cleaning, moses, workers)
        pipeline = make_pipeline(plan.subwords, plan.find_languages(), moses, files)
    else:
        pipeline = TextPipeline.load(plan.text_from)
    given = pipeline.source.sentences or plan.sentences, plan.max_source or pipeline.source.longest
    pipeline = pipeline.for_documents(*given)
    with atomic_folder(folder) as partial:
        pipeline.save(partial)
    return pipeline


def learn_pieces(plan: Plan, cleaning: Cleaning, moses: bool, workers: int) -> dict[str, bytes]:
    """SentencePiece models, one for both sides or one each, from an even sample of the kept pairs."""
    size = plan.vocab_size or 8000
    stride = -(-cleaning.characters // LEARN_CHARACTERS)

    def sample(sides: tuple[int, ...]) -> Iterator[str]:
        for index, pair in enumerate(select(plan.train.pairs(), cleaning.keep)):
            if index % stride == 0:
                yield from (normalise(pair[side]) for side in sides)

    if plan.separate_vocab:
        return {
            "subwords.source.model": learn_sentencepiece(sample((0,)), size),
            "subwords.target.model": learn_sentencepiece(sample((1,)), size),
        }
    return {"subwords.model": learn_sentencepiece(sample((0, 1)), size)}


def learn_words(plan: Plan, cleaning: Cleaning, moses: bool, workers: int) -> dict[str, bytes]:
    """BPE codes (given or learned jointly) and vocabularies, or the words as they stand."""
    tokenisers = [MosesTokeniser(language) if moses else None for language in plan.find_languages()]
    counts = count_words(select(plan.train.pairs(), cleaning.keep), tokenisers, workers)
    files: dict[str, bytes] = {}
    size = plan.vocab_size
    if plan.subwords == "bpe":
        if plan.bpe_codes is None:
            size = size or 8000
            codes = learn_bpe(counts[0] + counts[1], size)
        else:
            codes = read_text(plan.bpe_codes)
        files["bpe.codes"] = codes.encode("utf-8")
        segmenter = read_codes(codes)
        counts = tuple(count_pieces(each, segmenter) for each in counts)  # type: ignore[assignment]
    joint = counts[0] + counts[1]
    for side, own in zip(("source", "target"), counts, strict=True):
        vocabulary = count_vocabulary(own if plan.separate_vocab else joint, size)
        files[f"vocabulary.{side}.txt"] = vocabulary.text().encode("utf-8")
    return files


def count_pieces(words: Counter[str], segmenter: Any) -> Counter[str]:
    """How often every piece stands in the text, from how often every word does."""
    pieces: Counter[str] = Counter()
    for word, count in words.items():
        for piece in segmenter.segment_tokens([word]):
            pieces[piece] += count
    return pieces


def write_split(pairs: Iterator[Pair], pipeline: TextPipeline, out: Path, split: str, workers: int) -> None:
    """Shards of one split; those that an earlier run has finished are passed over."""
    folder = out / split
    folder.mkdir(exist_ok=True)
    number = 0
    while (folder / f"{number:05}").exists():
        number += 1
    for _ in zip(range(number * SHARD_PAIRS), pairs, strict=False):
        pass
    writer = None
    for source, target in encode_pairs(pairs, pipeline, out / "text", workers):
        while len(source.lengths):
            writer = writer or ShardWriter(folder / f"{number:05}")
            room = SHARD_PAIRS - writer.pairs
            writer.append(source.head(room), target.head(room))
            source, target = source.tail(room), target.tail(room)
            if writer.pairs == SHARD_PAIRS:
                writer.finish()
                writer, number = None, number + 1
    if writer is not None:
        writer.finish()


def finish(plan: Plan, out: Path, description: dict[str, Any], cleaning: Cleaning, pipeline: TextPipeline) -> None:
    """Write the report, then `meta.json`, whose presence says that the folder is complete."""
    kind = id_type(max(len(pipeline.source.vocabulary), len(pipeline.target.vocabulary)))
    splits: dict[str, Any] = {}
    for split in plan.splits():
        shards = [Shard(path, kind) for path in sorted((out / split).iterdir())]
        splits[split] = {
            "pairs": sum(len(shard) for shard in shards),
            "truncated": sum(int(shard.facts.get("truncated", 0)) for shard in shards),
            "tokens": {
                side: sum(int(shard.facts["tokens"][side]) for shard in shards) for side in ("source", "target")
            },
            "shards": [{"name": shard.folder.name, **shard.facts} for shard in shards],
        }
    meta = {
        "format": FORMAT,
        "id_bits": kind.itemsize * 8,
        "max_source": pipeline.source.longest,
        "vocabulary": {"source": len(pipeline.source.vocabulary), "target": len(pipeline.target.vocabulary)},
        "splits": splits,
        "dropped": {
            reason: {"pairs": cleaning.dropped[reason], "first_lines": cleaning.first_lines[reason]}
            for reason in cleaning.dropped
        },
        "plan": description,
    }
    write_file(out / REPORT, write_report(meta, plan.filters))
    write_file(out / META, json.dumps(meta, indent=2, ensure_ascii=False) + "\n")


def select(pairs: Iterable[Pair], keep: NDArray[np.bool_] | None) -> Iterator[Pair]:
    """The pairs to keep; without a mask all of them."""
    if keep is None:
        yield from pairs
    else:
        for kept, pair in zip(keep, pairs, strict=True):
            if kept:
                yield pair


def with_progress(pairs: Iterable[Pair], stage: str, total: int | None, progress: Progress) -> Iterator[Pair]:
    """The same pairs; progress hears of every thousandth."""
    done = 0
    for done, pair in enumerate(pairs, start=1):
        if done % 1000 == 0:
            progress(stage, done, total)
        yield pair
    progress(stage, done, done)


def summary(cleaning: Cleaning) -> str:
    """How many pairs were dropped for which reason."""
    return ", ".join(f"{count:,} {reason}" for reason, count in cleaning.dropped.items() if count)
