"""Decoding with and without a shortlist: output tokens per second, wall clock and CPU time, and BLEU.

    python benchmarks/shortlist_speed.py RUN SHORTLIST SOURCE REFERENCE [--sentences 400] [--rounds 5]

The two are interleaved, and medians are reported. BLEU is computed on the whole test set.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

from lamina.base.reading import read_lines
from lamina.scoring.sacre import corpus_bleu
from lamina.translation import load

BATCH = 32


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("run", "shortlist", "source", "reference"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--sentences", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    sources, references = list(read_lines(given.source)), list(read_lines(given.reference))
    translators = {"full": load(given.run), "shortlist": load(given.run, shortlist=given.shortlist)}
    text = translators["full"].text.source
    encoded = text.encode(sources[: given.sentences])
    tokens = [[text.vocabulary.symbols[index] for index in ids] for ids in encoded]
    clocks = {"wall": time.perf_counter, "cpu": time.process_time}
    seconds: dict[tuple[str, str], list[float]] = {(clock, name): [] for clock in clocks for name in translators}
    written: dict[str, int] = {}
    for number in range(given.rounds + 1):
        for name, translator in translators.items():
            started = {clock: read() for clock, read in clocks.items()}
            results = translator.translate_tokens(tokens, batch_sentences=BATCH)
            if number:  # the first round is a warm-up
                for clock, read in clocks.items():
                    seconds[clock, name].append(read() - started[clock])
            written[name] = sum(len(each.tokens) for each in results)
    outputs = {name: [each.text for each in model.translate(sources)] for name, model in translators.items()}
    rates = {
        clock: {name: round(written[name] / statistics.median(seconds[clock, name])) for name in translators}
        for clock in clocks
    }
    report = {
        "vocabulary": len(translators["full"].text.target.vocabulary),
        "tokens_per_second": {
            clock: {name: round(rate) for name, rate in each.items()} for clock, each in rates.items()
        },
        "ratio": {clock: round(each["shortlist"] / each["full"], 2) for clock, each in rates.items()},
        "bleu": {name: round(corpus_bleu(each, references), 2) for name, each in outputs.items()},
        "same_outputs": sum(one == other for one, other in zip(*outputs.values(), strict=True)),
        "sentences": len(sources),
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
