"""Anonymous memory used to prepare a large corpus and to iterate over it.

    python benchmarks/prepare_memory.py [--pairs 5000000] [--workers 2] [--folder DIR]

Writes the given number of generated pairs, runs `lamina prepare` on them and then one epoch of batches while sampling
the RssAnon of all processes. Prints JSON. Needs about 200 bytes of disk space per pair.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

ITERATE = """
import sys
from pathlib import Path
from lamina.corpus.batches import Batches, Position
from lamina.corpus.prepared import PreparedData
for update, position in Batches(PreparedData(Path(sys.argv[1])).split("train"), 4096).iterate(Position()):
    if position.epoch:
        break
"""


def write_pairs(folder: Path, pairs: int) -> None:
    """Write lines of 5 to 25 words from a Zipfian lexicon of 40,000; nearly all are distinct."""
    generator = random.Random(1)
    syllables = [a + b for a in "bcdfghklmnprstvwz" for b in ("a", "e", "i", "o", "u", "ei", "au")]
    lexicon = ["".join(generator.choices(syllables, k=generator.randint(1, 4))) for _ in range(40_000)]
    weights = [1 / (rank + 10) for rank in range(len(lexicon))]
    pool = generator.choices(lexicon, weights=weights, k=2_000_000)
    for split, count in (("train", pairs), ("valid", 1000)):
        with (folder / f"{split}.en").open("w") as source, (folder / f"{split}.de").open("w") as target:
            for _ in range(count):
                length, start = generator.randint(5, 25), generator.randrange(len(pool) - 60)
                source.write(" ".join(pool[start : start + length]) + "\n")
                target.write(" ".join(pool[start + 20 : start + 20 + length + generator.randint(-2, 4)]) + "\n")


def anonymous_mb(process: int) -> float:
    """RssAnon of a process and all its descendants."""
    total, pending = 0, [process]
    while pending:
        each = pending.pop()
        try:
            status = Path(f"/proc/{each}/status").read_text()
            children = Path(f"/proc/{each}/task/{each}/children").read_text().split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        total += sum(int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon"))
        pending.extend(map(int, children))
    return total / 1024


def watch(command: list[str]) -> dict[str, float]:
    """Run a command; return its peak anonymous memory and its duration."""
    started, peak = time.perf_counter(), 0.0
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    while process.poll() is None:
        peak = max(peak, anonymous_mb(process.pid))
        time.sleep(0.05)
    if process.returncode:
        raise SystemExit(f"{command} ended with {process.returncode}")
    return {"peak_anonymous_mb": round(peak), "seconds": round(time.perf_counter() - started, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=5_000_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--folder", type=Path, help="where to work; a temporary folder if not given")
    options = parser.parse_args()
    with TemporaryDirectory(dir=options.folder) as scratch:
        folder = Path(scratch)
        write_pairs(folder, options.pairs)
        files = {split: [folder / f"{split}.{language}" for language in ("en", "de")] for split in ("train", "valid")}
        prepare = [sys.executable, "-m", "lamina", "prepare", "--train", *files["train"], "--valid", *files["valid"]]
        prepare += ["--workers", options.workers, "--out", folder / "data"]
        report = {
            "pairs": options.pairs,
            "workers": options.workers,
            "prepare": watch(list(map(str, prepare))),
            "iterate": watch([sys.executable, "-c", ITERATE, str(folder / "data")]),
        }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
