"""Decoding with and without a shortlist: output tokens per second of CPU time, and how many outputs stay the same.

    python benchmarks/shortlist_speed.py RUN SHORTLIST SOURCE REFERENCE [--sentences 400] [--rounds 5]

Both take turns; medians count. BLEU is that of the whole test set.
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
    """Print JSON."""
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
    seconds: dict[str, list[float]] = {name: [] for name in translators}
    written: dict[str, int] = {}
    for number in range(given.rounds + 1):
        for name, translator in translators.items():
            started = time.process_time()
            results = translator.translate_tokens(tokens, batch_sentences=BATCH)
            if number:  # the first round is a warm-up
                seconds[name].append(time.process_time() - started)
            written[name] = sum(len(each.tokens) for each in results)
    outputs = {name: [each.text for each in one.translate(sources)] for name, one in translators.items()}
    rates = {name: written[name] / statistics.median(each) for name, each in seconds.items()}
    report = {
        "vocabulary": len(translators["full"].text.target.vocabulary),
        "tokens_per_cpu_second": {name: round(rate) for name, rate in rates.items()},
        "ratio": round(rates["shortlist"] / rates["full"], 2),
        "bleu": {name: round(corpus_bleu(each, references), 2) for name, each in outputs.items()},
        "same_outputs": sum(one == other for one, other in zip(*outputs.values(), strict=True)),
        "sentences": len(sources),
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
