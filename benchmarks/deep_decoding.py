"""Cost of a 72-layer MSC encoder and of SurfaceFusion's head in CPU decoding, compared with a plain 6-layer model.

    python benchmarks/deep_decoding.py [--rounds 5] [--length 20] [--steps 25] [--batch 32]

Random weights, `small`, 10,124 vocabulary entries, beam 5, one thread. Prints JSON: tokens per second of the decoder's
steps (encoder excluded) and of the whole, for `--batch` sentences of `--length` tokens and outputs of `--steps` tokens;
and the encoder's time relative to its matrix products alone (the same program without the other instructions).
Systems are interleaved; results are medians.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

import lamina
from lamina.base.cpu import chosen_set
from lamina.engine.compilation import make_engine
from lamina.recipe.decode import SearchSettings

VOCABULARY, BEAM = 10_124, 5
PLAIN, DEEP, FUSED = "plain-6", "msc-72", "surface-fusion-6"


def seconds_of(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


class Subject:
    """One engine and its sources."""

    def __init__(self, model: Any, sources: list[list[int]], steps: int) -> None:
        from lamina.engine.machine import PRODUCT

        self.engine, self.sources = make_engine([model.eval()]), sources
        self.settings = SearchSettings(beam=BEAM, min_length=steps, max_length=(0.0, steps))
        self.batch = self.engine.pack_sources(sources, self.settings, None, None)
        self.space = self.engine.new_workspace()
        self.engine.fit(self.space, self.batch, len(sources) * BEAM, steps + 1)
        code = self.engine.codes["encoder"]
        self.codes = {"encoder": code, "products": code[code[:, 0] == PRODUCT].copy()}

    def run_encoder(self, name: str) -> None:
        """Run the encoder, or its matrix products alone."""
        self.engine.codes["encoder"] = self.codes[name]
        self.engine.encode(self.space, self.batch)
        self.engine.codes["encoder"] = self.codes["encoder"]

    def measure(self) -> dict[str, float]:
        return {
            "whole": seconds_of(lambda: self.engine.search(self.sources, self.settings)),
            "encoder": seconds_of(lambda: self.run_encoder("encoder")),
            "products": seconds_of(lambda: self.run_encoder("products")),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--length", type=int, default=20)
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--batch", type=int, default=32)
    options = parser.parse_args()
    torch.manual_seed(1)
    sources = torch.randint(4, VOCABULARY, (options.batch, options.length)).tolist()
    models = {
        PLAIN: lamina.build("transformer", size="small", vocab_size=VOCABULARY),
        DEEP: lamina.build("msc", size="small", vocab_size=VOCABULARY, encoder={"layers": 72}),
        FUSED: lamina.build("surface-fusion", size="small", vocab_size=VOCABULARY),
    }
    subjects = {name: Subject(model, sources, options.steps) for name, model in models.items()}
    measured: dict[str, list[dict[str, float]]] = {name: [] for name in subjects}
    for turn in range(options.rounds + 1):
        for name, subject in subjects.items():
            found = subject.measure()
            if turn:  # the first is a warm-up
                measured[name].append(found)
    tokens = options.batch * (options.steps + 1)
    report: dict[str, Any] = {
        "instruction_set": chosen_set().name,
        "threads": 1,
        "sentences": options.batch,
        "beam": BEAM,
    }
    for name, rounds in measured.items():
        encoder, products = (statistics.median(each[part] for each in rounds) for part in ("encoder", "products"))
        report[name] = {
            "decoder_tokens_per_second": round(
                tokens / statistics.median(r["whole"] - r["encoder"] for r in rounds), 1
            ),
            "tokens_per_second": round(tokens / statistics.median(each["whole"] for each in rounds), 1),
            "encoder_seconds": round(encoder, 4),
            "its_products_seconds": round(products, 4),
            "encoder_over_products": round(statistics.median(r["encoder"] / r["products"] for r in rounds), 3),
        }
    for name in (DEEP, FUSED):
        report[f"{name} over {PLAIN}"] = {
            key: round(report[name][key] / report[PLAIN][key], 3)
            for key in ("decoder_tokens_per_second", "tokens_per_second")
        }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
