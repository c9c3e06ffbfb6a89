"""Decoding speed."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from lamina.base.reading import read_lines
from lamina.errors import DataError
from lamina.translation import load


def measure_decoding(
    run: Path,
    input_file: Path,
    beam: int,
    batches: Sequence[int],
    sentences: int,
    repeats: int,
    *,
    int8: bool,
    device: str,
    threads: int | None,
) -> dict[str, Any]:
    """Measure the numbers of `lamina bench decode`; batch sizes are interleaved."""
    translator = load(run, device=device, threads=threads, int8=int8)
    source = translator.text.source
    lines = list(islice((line for line in read_lines(input_file) if line.strip()), sentences))
    if not lines:
        raise DataError(f"{input_file}: has no lines to translate.")
    sources = [[source.vocabulary.symbols[token] for token in ids] for ids in source.encode(lines)]
    translator.translate_tokens(sources[:8], beam=beam)  # warm-up
    seconds: dict[int, list[float]] = {size: [] for size in batches}
    tokens: dict[int, int] = {}
    for _ in range(repeats):
        for size in batches:
            started = time.perf_counter()
            results = translator.translate_tokens(sources, beam=beam, batch_sentences=size)
            seconds[size].append(time.perf_counter() - started)
            tokens[size] = sum(len(result.tokens) for result in results)
    medians = {size: statistics.median(each) for size, each in seconds.items()}
    return {
        "sentences": len(sources),
        "beam": beam,
        "int8": int8,
        "backend": type(translator.backend).__name__,
        "threads": torch.get_num_threads(),
        "device": str(translator.device),
        "batches": [
            {
                "batch": size,
                "output_tokens_per_second": round(tokens[size] / medians[size]),
                "sentences_per_second": round(len(sources) / medians[size], 1),
            }
            for size in batches
        ],
    }
