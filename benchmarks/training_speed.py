"""Training speed of `lamina train` and Hugging Face Marian with the same shape and batches.

    pip install transformers
    python benchmarks/training_speed.py DATA [--size tiny] [--rounds 5] [--steps 4] [--before OTHER/src]

DATA is a folder written by `lamina prepare`. Each system runs in its own process, so that peak memory is measured
separately, and they are interleaved; `--before` adds the sources of another checkout of Lamina, to compare two commits.
All are post-norm, with residual dropout 0.1, label smoothing 0.1, shared embeddings and a fused Adam. Prints JSON:
non-padding source and target tokens per second, the speed of Lamina relative to each of the others (medians of the
rounds' ratios), and peak memory. On a busy machine use `--threads 1` and read `cpu_ratio`, which compares tokens per
second of CPU time.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import statistics
import sys
import time
from collections.abc import Callable
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

Step = Callable[[Any], None]
RECIPE = """
system: transformer-post
model: {{size: {size}, dropout: 0.1}}
train: {{max_steps: 100000, batch_tokens: {tokens}, lr: 1.0e-4, warmup: 10, label_smoothing: 0.1}}
"""


def lamina_step(data: Path, size: str, tokens: int) -> Step:
    """Return a function that takes one update, exactly as in `lamina train`."""
    import torch

    from lamina.bench.training import benchmark_trainer

    folder = TemporaryDirectory()
    recipe = Path(folder.name) / "recipe.yaml"
    recipe.write_text(RECIPE.format(size=size, tokens=tokens), encoding="utf-8")
    trainer = benchmark_trainer(recipe, [], data, Path(folder.name) / "run", torch.device("cpu"))
    trainer.scratch = folder  # type: ignore[attr-defined]  # lives as long as the trainer
    return trainer.update


def marian_step(data: Path, size: str, tokens: int) -> Step:
    """Return an update of Marian with torch's cross-entropy, which is faster than the library's label smoother."""
    import torch
    from transformers import MarianConfig, MarianMTModel

    from lamina.corpus.prepared import PreparedData
    from lamina.systems.published import SIZES

    shape = SIZES[size]
    layers = {side: shape[side]["layers"] for side in ("encoder", "decoder")}
    config = MarianConfig(
        vocab_size=len(PreparedData(data).text.target.vocabulary),
        d_model=shape["d_model"],
        encoder_layers=layers["encoder"],
        decoder_layers=layers["decoder"],
        encoder_attention_heads=shape["heads"],
        decoder_attention_heads=shape["heads"],
        encoder_ffn_dim=shape["ffn_size"],
        decoder_ffn_dim=shape["ffn_size"],
        dropout=0.1,
        attention_dropout=0.0,
        activation_dropout=0.0,
        activation_function="relu",
        scale_embedding=True,
        pad_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=0,
        forced_eos_token_id=2,
    )
    model = MarianMTModel(config).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), fused=True)

    def step(update: Any) -> None:
        optimizer.zero_grad(set_to_none=True)
        for batch in update.batches:
            source, prefix, target = map(torch.from_numpy, (batch.source, batch.prefix, batch.target))
            logits = model(
                input_ids=source, attention_mask=(source != 1).long(), decoder_input_ids=prefix, use_cache=False
            ).logits
            loss = torch.nn.functional.cross_entropy(
                logits.flatten(0, 1), target.flatten(), ignore_index=1, label_smoothing=0.1, reduction="sum"
            )
            (loss / update.tokens).backward()
        optimizer.step()

    return step


MAKERS = {"lamina": lamina_step, "before": lamina_step, "marian": marian_step}


def work(name: str, source: Path | None, data: Path, size: str, tokens: int, threads: int, pipe: Connection) -> None:
    """Serve requests: receive a number of steps; send tokens per second by wall and CPU time, and peak memory."""
    if source is not None:
        sys.path.insert(0, str(source))
    import torch

    from lamina.bench.training import real_tokens
    from lamina.corpus.batches import Batches, Position
    from lamina.corpus.prepared import PreparedData

    if source is not None and not Path(sys.modules["lamina"].__file__ or "").is_relative_to(source):
        raise SystemExit(f"{source}: has no package lamina")
    torch.set_num_threads(threads)
    step = MAKERS[name](data, size, tokens)
    updates = Batches(PreparedData(data).split("train"), tokens, seed=1).iterate(Position())
    while (steps := pipe.recv()) is not None:
        batches = [update for update, _ in islice(updates, steps)]
        real = sum(map(real_tokens, batches))
        started, cpu_started = time.perf_counter(), time.process_time()
        for update in batches:
            step(update)
        speed, cpu_speed = real / (time.perf_counter() - started), real / (time.process_time() - cpu_started)
        pipe.send((speed, cpu_speed, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--size", default="tiny")
    parser.add_argument("--tokens", type=int, default=4096, help="padded target tokens per batch")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--steps", type=int, default=4, help="updates per turn")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--before", type=lambda path: Path(path).resolve(), help="sources of another checkout")
    options = parser.parse_args()
    names = [name for name in MAKERS if name != "before" or options.before is not None]
    spawn = multiprocessing.get_context("spawn")
    pipes: dict[str, Connection] = {}
    for name in names:
        pipes[name], remote = spawn.Pipe()
        source = options.before if name == "before" else None
        arguments = (name, source, options.data, options.size, options.tokens, options.threads, remote)
        spawn.Process(target=work, args=arguments, daemon=True).start()
        remote.close()  # so that a failed process ends this one too
    speeds: dict[str, list[float]] = {name: [] for name in names}
    cpu_speeds: dict[str, list[float]] = {name: [] for name in names}
    memory: dict[str, float] = {}
    for turn in range(options.rounds + 1):
        for name, pipe in pipes.items():
            pipe.send(options.steps)
            speed, cpu_speed, memory[name] = pipe.recv()
            if turn:  # the first is a warm-up
                speeds[name].append(speed)
                cpu_speeds[name].append(cpu_speed)
    for pipe in pipes.values():
        pipe.send(None)
    ratios, cpu_ratios = (
        {
            name: [round(ours / theirs, 3) for ours, theirs in zip(each["lamina"], each[name], strict=True)]
            for name in names[1:]
        }
        for each in (speeds, cpu_speeds)
    )
    report = {
        **{key: str(value) if isinstance(value, Path) else value for key, value in vars(options).items()},
        "tokens_per_second": {name: round(statistics.median(values)) for name, values in speeds.items()},
        "ratio": {name: statistics.median(values) for name, values in ratios.items()},
        "ratios": ratios,
        "tokens_per_cpu_second": {name: round(statistics.median(values)) for name, values in cpu_speeds.items()},
        "cpu_ratio": {name: statistics.median(values) for name, values in cpu_ratios.items()},
        "cpu_ratios": cpu_ratios,
        "peak_memory_mb": {name: round(value) for name, value in memory.items()},
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
