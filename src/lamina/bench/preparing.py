"""Speed of encoding and batching, compared with SentencePiece alone and with training."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lamina.base.processes import processes
from lamina.corpus.batches import Batches, Position
from lamina.corpus.encoding import in_order
from lamina.corpus.plan import PairSource
from lamina.corpus.prepare import write_split
from lamina.corpus.prepared import Split
from lamina.corpus.reading import Pair
from lamina.corpus.shards import Shard
from lamina.text.pipeline import TextPipeline, make_pipeline
from lamina.text.subwords import learn_sentencepiece

LEARN_PAIRS = 30_000  # for learning the benchmark's vocabulary

_processor: Any  # of this worker process


def measure(source: PairSource, workers: int, batch_tokens: int, vocab_size: int, repeats: int) -> dict[str, Any]:
    """Measure the numbers of `lamina bench prepare`."""
    pairs = list(source.pairs())
    learned = learn_sentencepiece((line for pair in pairs[:LEARN_PAIRS] for line in pair), vocab_size)
    pipeline = make_pipeline("sentencepiece", ("source", "target"), False, {"subwords.model": learned})
    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "text").mkdir()
        pipeline.save(folder / "text")
        rounds = []
        for number in range(repeats):
            alone = seconds(partial(encode_alone, pairs, learned, workers))
            ours = partial(write_split, iter(pairs), pipeline, folder, f"round{number}", workers)
            rounds.append((alone, seconds(ours)))
        split = open_split(folder / "round0", pipeline)
        batches = Batches(split, batch_tokens)
        feeding = feed_speed(batches)
        training = train_speed(batches, len(pipeline.source.vocabulary))
        return {
            "pairs": len(pairs),
            "workers": workers,
            "encoding_pairs_per_second": round(len(pairs) / statistics.median(ours for _, ours in rounds)),
            "sentencepiece_alone_pairs_per_second": round(len(pairs) / statistics.median(one for one, _ in rounds)),
            "encoding_time_over_sentencepiece_alone": round(statistics.median(b / a for a, b in rounds), 3),
            "batch_tokens": batch_tokens,
            "batch_iteration_tokens_per_second": round(feeding),
            "small_trains_tokens_per_second": round(training),
            "batch_iteration_over_training": round(feeding / training, 1),
            "padding": round(batches.padding(), 4),
        }


def seconds(work: Callable[[], object]) -> float:
    """Time a call."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def encode_alone(pairs: Sequence[Pair], model: bytes, workers: int) -> None:
    """Run only SentencePiece, without reading, cleaning or writing, on the same lines in as many processes."""
    share = -(-len(pairs) // workers)
    parts = [pairs[start : start + share] for start in range(0, len(pairs), share)]
    with processes(workers, _load_processor, model) as pool:
        list(in_order(pool, _encode_share, parts, len(parts)))


def open_split(folder: Path, pipeline: TextPipeline) -> Split:
    """Open the shards written by `write_split`."""
    return Split([Shard(path, pipeline.id_type) for path in sorted(folder.iterdir())])


def feed_speed(batches: Batches) -> float:
    """Target tokens per second over one epoch of padded batches."""
    started, tokens = time.perf_counter(), 0
    for update, position in batches.iterate(Position()):
        tokens += sum(batch.tokens for batch in update.batches)
        if position.epoch:
            break
    return tokens / (time.perf_counter() - started)


def train_speed(batches: Batches, vocabulary: int, steps: int = 3) -> float:
    """Training throughput of a `small` Transformer in target tokens per second."""
    import torch

    from lamina.systems.build import build

    model = build("transformer", size="small", vocab_size=vocabulary)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    speeds = []
    for update, _ in islice(batches.iterate(Position()), steps):
        started = time.perf_counter()
        for batch in update.batches:
            arrays = (torch.from_numpy(array) for array in (batch.source, batch.prefix, batch.target))
            (model(*arrays, 0.1).total / update.tokens).backward()
        optimizer.step()
        optimizer.zero_grad()
        speeds.append(update.tokens / (time.perf_counter() - started))
    return statistics.median(speeds)


def _load_processor(model: bytes) -> None:
    from sentencepiece import SentencePieceProcessor

    global _processor
    _processor = SentencePieceProcessor(model_proto=model)


def _encode_share(pairs: Sequence[Pair]) -> int:
    sources, targets = zip(*pairs, strict=True)
    return len(_processor.encode(list(sources))) + len(_processor.encode(list(targets)))
