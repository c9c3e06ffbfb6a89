"""Speed of the head `pointer` relative to `softmax`: training steps and decoding.

    python benchmarks/pointer_speed.py [--size tiny] [--vocabulary 10000] [--rounds 5]

Random weights, pre-norm, one thread. Training: forward, backward and a fused Adam on 64 pairs of 24 tokens. Decoding:
32 sentences of 20 tokens, beam 5, outputs of 25 tokens, with the CPU engine. The two heads are interleaved, and CPU
time is measured, so that background load affects both alike. Prints JSON: tokens per second (best round) and ratios.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import torch

import lamina
from lamina.base.cpu import chosen_set
from lamina.engine.compilation import make_engine
from lamina.recipe.decode import SearchSettings

SYSTEMS = {"softmax": "transformer", "pointer": "pointer-generator"}
PAIRS, LENGTH, SMOOTHING = 64, 24, 0.1
SENTENCES, SOURCE, OUTPUT, BEAM = 32, 20, 25, 5


def cpu_seconds(call: Callable[[], object]) -> float:
    started = time.process_time()
    call()
    return time.process_time() - started


def training_step(model: Any, vocabulary: int) -> Callable[[], None]:
    batch = torch.randint(4, vocabulary, (3, PAIRS, LENGTH))
    optimiser = torch.optim.Adam(model.parameters(), fused=True)

    def step() -> None:
        optimiser.zero_grad()
        model.train()(*batch, SMOOTHING).mean().backward()
        optimiser.step()

    return step


def search(model: Any, vocabulary: int) -> Callable[[], object]:
    sources = torch.randint(4, vocabulary, (SENTENCES, SOURCE)).tolist()
    settings = SearchSettings(beam=BEAM, min_length=OUTPUT, max_length=(0.0, OUTPUT))
    engine = make_engine([model.eval()])
    return lambda: engine.search(sources, settings)


def compare(
    make: Callable[[Any, int], Callable[[], object]], tokens: int, options: argparse.Namespace
) -> dict[str, Any]:
    """Measure tokens per second of both heads, interleaved after one warm-up."""
    calls = {}
    for head, system in SYSTEMS.items():
        torch.manual_seed(1)
        calls[head] = make(lamina.build(system, size=options.size, vocab_size=options.vocabulary), options.vocabulary)
        calls[head]()
    rounds = [{head: cpu_seconds(call) for head, call in calls.items()} for _ in range(options.rounds)]
    speed = {head: tokens / min(each[head] for each in rounds) for head in SYSTEMS}
    return {
        **{head: round(each) for head, each in speed.items()},
        "ratio": round(speed["pointer"] / speed["softmax"], 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=("tiny", "small"), default="tiny")
    parser.add_argument("--vocabulary", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    report = {
        "size": options.size,
        "vocabulary": options.vocabulary,
        "instructions": chosen_set().name,
        "training": compare(training_step, PAIRS * LENGTH, options),
        "decoding": compare(search, SENTENCES * OUTPUT, options),
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
