"""Encode lines to ids in parallel processes, in order, with a bounded number of lines in flight."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from lamina.base.processes import processes
from lamina.corpus.reading import Pair
from lamina.corpus.shards import Encoded
from lamina.errors import KilledProcessError
from lamina.names import option
from lamina.text.normalise import normalise
from lamina.text.pipeline import LanguageText, TextPipeline
from lamina.text.tokenise import MosesTokeniser

BATCH = 8192  # pairs sent to a process at a time
Result = TypeVar("Result")

_pipeline: TextPipeline  # of this worker process


def encode_pairs(
    pairs: Iterable[Pair], pipeline: TextPipeline, folder: Path, workers: int
) -> Iterator[tuple[Encoded, Encoded]]:
    """Encode pairs in batches, in order; `folder` holds the saved pipeline for worker processes."""
    if workers <= 1:
        for batch in chunks(pairs):
            yield encode_batch(pipeline, batch)
        return
    with processes(workers, _load_pipeline, folder) as pool:
        yield from in_order(pool, _encode_in_worker, chunks(pairs), 2 * workers)


def count_words(
    pairs: Iterable[Pair], tokenisers: Sequence[MosesTokeniser | None], workers: int
) -> tuple[Counter[str], Counter[str]]:
    """Count the words of each side."""
    totals: tuple[Counter[str], Counter[str]] = Counter(), Counter()
    work = ((batch, tuple(tokenisers)) for batch in chunks(pairs))
    with processes(workers, _do_nothing, None) as pool:
        for counts in in_order(pool, _count_batch, work, 2 * workers):
            for total, count in zip(totals, counts, strict=True):
                total.update(count)
    return totals


def encode_batch(pipeline: TextPipeline, batch: Sequence[Pair]) -> tuple[Encoded, Encoded]:
    """Encode both sides of a batch of pairs."""
    sources, targets = zip(*batch, strict=True)
    return encode_side(pipeline.source, sources, pipeline.id_type), encode_side(
        pipeline.target, targets, pipeline.id_type
    )


def encode_side(text: LanguageText, lines: Sequence[str], kind: np.dtype[Any]) -> Encoded:
    """Encode one side of a batch of pairs."""
    whole = text.encode(lines)
    encoded = [text.truncate(ids) for ids in whole]
    pairs = zip(whole, encoded, strict=True)
    truncated = np.fromiter((len(ids) < len(all_ids) for all_ids, ids in pairs), dtype=np.bool_, count=len(encoded))
    lengths = np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded))
    ids = np.fromiter(chain.from_iterable(encoded), dtype=kind, count=int(lengths.sum()))
    return Encoded(ids, lengths, truncated)


def chunks(pairs: Iterable[Pair]) -> Iterator[list[Pair]]:
    """Split pairs into lists of `BATCH`."""
    stream = iter(pairs)
    while batch := list(islice(stream, BATCH)):
        yield batch


def in_order(
    pool: Executor, function: Callable[[Any], Result], tasks: Iterable[Any], max_pending: int
) -> Iterator[Result]:
    """Map a function over tasks, in order, with at most `max_pending` of them submitted at a time."""
    pending: deque[Future[Result]] = deque()
    try:
        for task in tasks:
            pending.append(pool.submit(function, task))
            if len(pending) >= max_pending:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    except BrokenExecutor as error:
        raise KilledProcessError(
            f"A worker process was killed, possibly for lack of memory; rerun with fewer {option('workers')} to resume."
        ) from error


def _do_nothing(_: None) -> None:
    pass


def _load_pipeline(folder: Path) -> None:
    global _pipeline
    _pipeline = TextPipeline.load(folder)


def _encode_in_worker(batch: Sequence[Pair]) -> tuple[Encoded, Encoded]:
    return encode_batch(_pipeline, batch)


def _count_batch(
    work: tuple[Sequence[Pair], Sequence[MosesTokeniser | None]],
) -> tuple[Counter[str], Counter[str]]:
    batch, tokenisers = work
    counts: list[Counter[str]] = []
    for lines, tokeniser in zip(zip(*batch, strict=True), tokenisers, strict=True):
        clean = map(normalise, lines)
        tokenised = clean if tokeniser is None else map(tokeniser.tokenise, clean)
        counts.append(Counter(chain.from_iterable(line.split() for line in tokenised)))
    return counts[0], counts[1]
