"""Memory used to summarise one long document, in addition to the model and the engine.

    python benchmarks/document_memory.py [--length 640] [--size small] [--vocabulary 32000]

Random weights, beam 5, 120 output tokens. Each system is measured in its own process: peak RSS minus the RSS after a
short document has been summarised, which loads and compiles everything. Prints JSON, in MB.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from pathlib import Path

SYSTEMS = ("transformer", "pointer-generator", "hierarchical", "surface-fusion", "msc")
SHORT, SENTENCE, OUTPUT = 16, 20, 120


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def measure(system: str, length: int, size: str, vocabulary: int) -> float:
    import torch

    import lamina
    from lamina.engine.compilation import make_engine
    from lamina.recipe.decode import SearchSettings
    from lamina.text.vocabulary import BOS, EOS

    torch.manual_seed(1)
    engine = make_engine([lamina.build(system, size=size, vocab_size=vocabulary).eval()])
    document = torch.randint(4, vocabulary, (length,))
    document[SENTENCE::SENTENCE] = BOS  # between sentences
    document[-1] = EOS
    engine.search([document[-SHORT:].tolist()], SearchSettings(beam=5, max_length=(0.0, 8)))
    before = resident_mb()
    engine.search([document.tolist()], SearchSettings(beam=5, min_length=OUTPUT, max_length=(0.0, OUTPUT)))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10 - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--length", type=int, default=640)
    parser.add_argument("--size", choices=("tiny", "small"), default="small")
    parser.add_argument("--vocabulary", type=int, default=32000)
    parser.add_argument("--system", choices=SYSTEMS, help="measure one system in this process")
    options = parser.parse_args()
    if options.system:
        print(measure(options.system, options.length, options.size, options.vocabulary))
        return
    given = ["--length", options.length, "--size", options.size, "--vocabulary", options.vocabulary]
    added = {
        system: round(float(subprocess.check_output([sys.executable, __file__, *map(str, given), "--system", system])))
        for system in SYSTEMS
    }
    print(json.dumps({"length": options.length, "size": options.size, "added_peak_mb": added}, indent=2))


if __name__ == "__main__":
    main()
