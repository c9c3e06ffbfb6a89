"""Preparation of a data folder from raw parallel text, in bounded memory and resumable at any moment."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lamina.base.files import atomic_folder, locked, partial_name, remove, write_file
from lamina.base.processes import run_in_child
from lamina.base.progress import Progress, no_progress
from lamina.base.reading import read_json
from lamina.corpus.cleaning import LARGE_ALPHABET, Cleaning, clean
from lamina.corpus.encoding import count_words, encode_pairs
from lamina.corpus.plan import Plan
from lamina.corpus.prepared import FORMAT, META, PreparedData
from lamina.corpus.reading import Pair
from lamina.corpus.report import write_report
from lamina.corpus.shards import Shard, ShardWriter, find_damage
from lamina.errors import DataError, KilledProcessError, UsageError
from lamina.names import option
from lamina.text.normalise import normalise
from lamina.text.pipeline import TextPipeline, find_text, make_pipeline
from lamina.text.subwords import count_vocabulary, learn_bpe, learn_sentencepiece, read_codes, read_text
from lamina.text.tokenise import MosesTokeniser

PLAN, LOCK, REPORT = "plan.json", "lock", "report.md"
PARTS = ("text", "train", "valid", "test")
SHARD_PAIRS = 2**19
LEARN_CHARACTERS = 20_000_000  # SentencePiece learns from an even sample of at most this much text


def prepare(plan: Plan, out: Path, workers: int = 1, progress: Progress = no_progress) -> PreparedData:
    """Prepare data; after an interruption the same call resumes."""
    plan.check()
    for source in plan.splits().values():
        for path in source.paths:
            if out.resolve() in path.resolve().parents:
                raise UsageError(f"{path}: is inside the output folder (`{out}`). Choose another folder.")
    existed = out.exists()
    try:
        out.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise DataError(f"{out}: is a file, not a folder. Choose another folder.") from error
    except OSError as error:
        raise DataError(f"{out}: cannot be written ({error.strerror}).") from error
    description = json.loads(json.dumps(plan.describe()))
    check_folder(out, description)
    with locked(out / LOCK, f"{out}: another process is preparing data in this folder."):
        try:
            if begin(out, description):
                run_stages(plan, out, description, workers, progress)
        except KilledProcessError:
            raise
        except (DataError, UsageError):
            clear(out)
            if not existed:
                out.rmdir()
            raise
        except OSError as error:
            raise DataError(
                f"{out}: cannot be written ({error.strerror}). Nothing was lost: rerun the same command to resume."
            ) from error
        remove(out / LOCK)
    return PreparedData(out)


def run_stages(plan: Plan, out: Path, description: dict[str, Any], workers: int, progress: Progress) -> None:
    """Run every stage that is not finished yet."""
    cleaning = clean(with_progress(plan.train.pairs(), "reading", None, progress), plan.filters)
    if not len(cleaning.keep):
        raise DataError(f"{plan.train.paths[0]}: has no lines (train split).")
    if cleaning.kept == 0:
        raise DataError(
            f"All training pairs were dropped by filters ({summary(cleaning)}). "
            f"Disable a filter with {option('no_filter')}."
        )
    pipeline = learn_text(plan, cleaning, out, workers, progress)
    for split, source in plan.splits().items():
        keep = cleaning.keep if split == "train" else None
        total = cleaning.kept if split == "train" else None
        pairs = with_progress(select(source.pairs(), keep), f"encoding {split}", total, progress)
        write_split(pairs, pipeline, out, split, workers)
        if not (out / split / "00000").is_dir():
            raise DataError(f"{source.paths[0]}: has no lines ({split} split).")
    finish(plan, out, description, cleaning, pipeline)


def check_folder(out: Path, description: dict[str, Any]) -> None:
    """Refuse a folder that contains anything but an earlier run of the same plan."""
    if (out / PLAN).exists():
        before = read_json(out / PLAN)
        if before != description:
            changed = ", ".join(key for key in {**before, **description} if before.get(key) != description.get(key))
            raise UsageError(
                f"{out}: contains data prepared with different settings ({changed}). Choose another folder."
            )
    elif any(path.name not in (LOCK, partial_name(Path(PLAN)).name) for path in out.iterdir()):
        raise UsageError(f"{out}: is not empty and contains no prepared data. Choose another folder.")


def begin(out: Path, description: dict[str, Any]) -> bool:
    """Record the plan and return whether there is work to do; a damaged folder is prepared again."""
    remove(partial_name(out / PLAN))
    if not (out / PLAN).exists():
        write_file(out / PLAN, json.dumps(description, indent=2) + "\n")
    if not (out / META).exists():
        return True
    try:
        if PreparedData(out).is_whole():
            return False
    except DataError:
        pass
    remove(out / META)
    return True


def clear(out: Path) -> None:
    """Remove everything that a failed run has written, so that a corrected command can reuse the folder."""
    for name in (*PARTS, REPORT, META, PLAN):
        remove(out / name)
        remove(partial_name(out / name))
    remove(out / LOCK)


def learn_text(plan: Plan, cleaning: Cleaning, out: Path, workers: int, progress: Progress) -> TextPipeline:
    """Load the text pipeline in `out/text`, or learn it from the training pairs."""
    folder = out / "text"
    if folder.exists():
        try:
            return TextPipeline.load(folder)
        except DataError:  # damaged since it was written
            remove(folder)
    if plan.text.text_from is None:
        moses = plan.text.kind == "bpe" and not plan.text.pretokenized
        progress("learning subwords", 0, None)
        learn = learn_pieces if plan.text.kind == "sentencepiece" else learn_words
        files = learn(plan, cleaning, moses, workers)
        pipeline = make_pipeline(plan.text.kind, plan.find_languages(), moses, files)
    else:
        pipeline = TextPipeline.load(find_text(Path(plan.text.text_from)))
    given = pipeline.source.sentences or plan.sentences, plan.max_source or pipeline.source.longest
    pipeline = pipeline.for_documents(*given)
    with atomic_folder(folder) as partial:
        pipeline.save(partial)
    return pipeline


def learn_pieces(plan: Plan, cleaning: Cleaning, moses: bool, workers: int) -> dict[str, bytes]:
    """Learn SentencePiece models, one for both sides or one each, from an even sample of the kept pairs."""
    size = plan.text.vocab_size or 8000
    stride = -(-cleaning.characters // LEARN_CHARACTERS)
    coverage = 1.0 if cleaning.alphabet < LARGE_ALPHABET else 0.9995

    def sample(sides: tuple[int, ...]) -> Iterator[str]:
        for index, pair in enumerate(select(plan.train.pairs(), cleaning.keep)):
            if index % stride == 0:
                yield from (normalise(pair[side]) for side in sides)

    def learn(sides: tuple[int, ...]) -> bytes:
        return run_in_child(lambda: learn_sentencepiece(sample(sides), size, coverage, plan.text.lowercase))

    if plan.text.separate_vocab:
        return {
            "subwords.source.model": learn((0,)),
            "subwords.target.model": learn((1,)),
        }
    return {"subwords.model": learn((0, 1))}


def learn_words(plan: Plan, cleaning: Cleaning, moses: bool, workers: int) -> dict[str, bytes]:
    """BPE codes, given or learned jointly, and vocabularies; without BPE, vocabularies of words."""
    tokenisers = [MosesTokeniser(language) if moses else None for language in plan.find_languages()]
    counts = count_words(select(plan.train.pairs(), cleaning.keep), tokenisers, workers)
    files: dict[str, bytes] = {}
    size = plan.text.vocab_size
    if plan.text.kind == "bpe":
        if plan.text.bpe_codes is None:
            size = size or 8000
            codes = learn_bpe(counts[0] + counts[1], size)
        else:
            codes = read_text(Path(plan.text.bpe_codes))
        files["bpe.codes"] = codes.encode("utf-8")
        segmenter = read_codes(codes, str(plan.text.bpe_codes))
        counts = tuple(count_pieces(each, segmenter) for each in counts)  # type: ignore[assignment]
    joint = counts[0] + counts[1]
    for side, own in zip(("source", "target"), counts, strict=True):
        vocabulary = count_vocabulary(own if plan.text.separate_vocab else joint, size)
        files[f"vocabulary.{side}.txt"] = vocabulary.text().encode("utf-8")
    return files


def count_pieces(words: Counter[str], segmenter: Any) -> Counter[str]:
    """Count the pieces of counted words."""
    pieces: Counter[str] = Counter()
    for word, count in words.items():
        for piece in segmenter.segment_tokens([word]):
            pieces[piece] += count
    return pieces


def write_split(pairs: Iterator[Pair], pipeline: TextPipeline, out: Path, split: str, workers: int) -> None:
    """Write the shards of one split, skipping those that an earlier run has finished."""
    folder = out / split
    folder.mkdir(exist_ok=True)
    number = 0
    while (folder / f"{number:05}").exists() and is_whole(folder / f"{number:05}"):
        number += 1
    for path in folder.iterdir():
        if path.name >= f"{number:05}":
            remove(path)
    for _ in zip(range(number * SHARD_PAIRS), pairs, strict=False):
        pass
    writer = None
    for source, target in encode_pairs(pairs, pipeline, out / "text", workers):
        while len(source.lengths):
            writer = writer or ShardWriter(folder / f"{number:05}")
            free = SHARD_PAIRS - writer.pairs
            writer.append(source.head(free), target.head(free))
            source, target = source.tail(free), target.tail(free)
            if writer.pairs == SHARD_PAIRS:
                writer.finish()
                writer, number = None, number + 1
    if writer is not None:
        writer.finish()


def is_whole(shard: Path) -> bool:
    """Whether every file of a shard matches its digest."""
    try:
        return find_damage(shard) is None
    except DataError:
        return False


def finish(plan: Plan, out: Path, description: dict[str, Any], cleaning: Cleaning, pipeline: TextPipeline) -> None:
    """Write the report, then `meta.json`, which marks the folder as complete."""
    splits: dict[str, Any] = {}
    for split in plan.splits():
        shards = [Shard(path, pipeline.id_type) for path in sorted((out / split).iterdir())]
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
        "id_bits": pipeline.id_type.itemsize * 8,
        "max_source": pipeline.source.longest,
        "vocabulary": {"source": len(pipeline.source.vocabulary), "target": len(pipeline.target.vocabulary)},
        "subwords": pipeline.kind,
        "shared_vocabulary": pipeline.source.vocabulary == pipeline.target.vocabulary,
        "text": pipeline.digests(),
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
    """Select pairs by a mask; None keeps all of them."""
    if keep is None:
        yield from pairs
    else:
        for kept, pair in zip(keep, pairs, strict=True):
            if kept:
                yield pair


def with_progress(pairs: Iterable[Pair], stage: str, total: int | None, progress: Progress) -> Iterator[Pair]:
    """Pass pairs through and report progress every thousand."""
    done = 0
    for done, pair in enumerate(pairs, start=1):
        if done % 1000 == 0:
            progress(stage, done, total)
        yield pair
    progress(stage, done, done)


def summary(cleaning: Cleaning) -> str:
    """The number of dropped pairs by reason."""
    return ", ".join(f"{count:,} {reason}" for reason, count in cleaning.dropped.items() if count)
