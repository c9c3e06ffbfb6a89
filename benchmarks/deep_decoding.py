"""What a 72-layer MSC encoder costs when translating, beside a plain 6-layer one: random weights, `small`, beam 5.

    python benchmarks/deep_decoding.py [--rounds 5] [--length 20] [--steps 25]

Prints JSON: tokens per second of the decoder's steps (encoder excluded) and of the whole, for 32 sentences of
`--length` tokens and `--steps` steps each; and the encoder's time beside that of its matrix products alone, which are
recorded once and replayed on tensors of the same shapes. Systems take turns; medians.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from lamina.search.products import prepare_for_decoding
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import lamina
from lamina.model.seq2seq import Seq2Seq
from lamina.search.beam import beam_search
from lamina.search.settings import SearchSettings
from lamina.search.stepper import TorchState, TorchStepper

VOCABULARY, SENTENCES, BEAM = 10_124, 32, 5
PRODUCTS = {"mm", "addmm", "bmm", "baddbmm"}


class TimedStart(TorchStepper):
    """Knows how long the encoder took."""

    seconds = 0.0

    def start(self, source_BS: Tensor, rows: int) -> TorchState:
        started = time.perf_counter()
        state = super().start(source_BS, rows)
        self.seconds = time.perf_counter() - started
        return state


class Recorder(TorchDispatchMode):
    """Notes every matrix product and its operands."""

    def __init__(self) -> None:
        super().__init__()
        self.products: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.overloadpacket.__name__.split(".")[-1] in PRODUCTS:
            copies = tuple(torch.rand_like(each) if isinstance(each, Tensor) else each for each in args)
            self.products.append((func, copies, kwargs or {}))
        return func(*args, **(kwargs or {}))


def seconds_of(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def measure(model: Seq2Seq, source_BS: Tensor, steps: int) -> dict[str, float]:
    settings = SearchSettings(beam=BEAM, min_length=steps, max_length=(0.0, steps))
    stepper = TimedStart(model)
    with torch.inference_mode():
        whole = seconds_of(lambda: beam_search(stepper, source_BS, settings, model.start_id))
    return {"encoder": stepper.seconds, "whole": whole}


def products_of(model: Seq2Seq, source_BS: Tensor) -> Callable[[], None]:
    """The encoder's matrix products alone."""
    recorder = Recorder()
    with torch.no_grad(), recorder:
        model.encode(source_BS)

    def replay() -> None:
        with torch.inference_mode():
            for func, args, kwargs in recorder.products:
                func(*args, **kwargs)

    return replay


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--length", type=int, default=20)
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    source_BS = torch.randint(4, VOCABULARY, (SENTENCES, options.length))
    models = {
        "plain-6": lamina.build("transformer", size="small", vocab_size=VOCABULARY),
        "msc-72": lamina.build("msc", size="small", vocab_size=VOCABULARY, encoder={"layers": 72}),
    }
    replays = {name: products_of(model.eval(), source_BS) for name, model in models.items()}
    for model in models.values():
        prepare_for_decoding(model)
    taken: dict[str, dict[str, list[float]]] = {
        name: {"encoder": [], "whole": [], "products": [], "encode": []} for name in models
    }
    for turn in range(options.rounds + 1):
        for name, model in models.items():
            found = measure(model, source_BS, options.steps)
            with torch.inference_mode():
                found["encode"] = seconds_of(lambda model=model: model.encode(source_BS))  # type: ignore[misc]
            found["products"] = seconds_of(replays[name])
            if turn:  # the first is a warm-up
                for key, value in found.items():
                    taken[name][key].append(value)
    tokens = SENTENCES * (options.steps + 1)
    report: dict[str, Any] = {"threads": options.threads, "sentences": SENTENCES, "beam": BEAM}
    for name, times in taken.items():
        steps = statistics.median(a - b for a, b in zip(times["whole"], times["encoder"], strict=True))
        whole, encode, products = (statistics.median(times[key]) for key in ("whole", "encode", "products"))
        report[name] = {
            "decoder_tokens_per_second": round(tokens / steps, 1),
            "tokens_per_second": round(tokens / whole, 1),
            "encoder_seconds": round(encode, 3),
            "its_products_seconds": round(products, 3),
            "encoder_over_products": round(encode / products, 2),
        }
    shares = {
        key: round(report["msc-72"][key] / report["plain-6"][key], 3)
        for key in ("decoder_tokens_per_second", "tokens_per_second")
    }
    print(json.dumps({**report, "msc-72 over plain-6": shares}, indent=2))


if __name__ == "__main__":
    main()
