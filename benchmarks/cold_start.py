"""Time and memory of `lamina translate` for one sentence in a new process.

    python benchmarks/cold_start.py RUN [--rounds 5] [--lamina "python -m lamina" ...]

Prints JSON for each command: median, minimum and maximum seconds from the start of the process to its end, and its
peak memory. `first` starts without the model in the cache of lowered models, `next` with it; both have compiled code.
Commands are interleaved. With several, such as two versions of Lamina, each has its own cache.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from lamina.base.files import user_cache

SENTENCE = b"A dog runs.\n"


def measure(command: list[str], cache: Path) -> tuple[float, float]:
    """Measure seconds and megabytes of one process."""
    started = time.perf_counter()
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=environment)
    assert child.stdin is not None
    child.stdin.write(SENTENCE)
    child.stdin.close()
    _, status, used = os.wait4(child.pid, 0)
    if status:
        raise SystemExit(f"{shlex.join(command)} failed")
    return time.perf_counter() - started, used.ru_maxrss / 1024


def summary(rounds: list[tuple[float, float]]) -> dict[str, float]:
    seconds, megabytes = zip(*rounds, strict=True)
    return {
        "seconds": round(statistics.median(seconds), 2),
        "lowest": round(min(seconds), 2),
        "highest": round(max(seconds), 2),
        "megabytes": round(statistics.median(megabytes)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--lamina", nargs="+", default=[f"{shlex.quote(sys.executable)} -m lamina"])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        caches = {name: Path(folder) / str(number) for number, name in enumerate(options.lamina)}
        for cache in caches.values():
            (cache / "lamina").mkdir(parents=True)
            (cache / "lamina" / "engine").symlink_to(user_cache("engine") or cache)
        results: dict[str, dict[str, list[tuple[float, float]]]] = {name: {"first": [], "next": []} for name in caches}
        for number in range(options.rounds + 1):
            for name, cache in caches.items():
                command = [*shlex.split(name), "translate", str(options.run)]
                for kind in ("first", "next"):
                    if kind == "first":
                        shutil.rmtree(cache / "lamina" / "programs", ignore_errors=True)
                    result = measure(command, cache)
                    if number:  # the first round compiles and warms the page cache
                        results[name][kind].append(result)
    print(
        json.dumps(
            {name: {kind: summary(each) for kind, each in own.items()} for name, own in results.items()}, indent=2
        )
    )


if __name__ == "__main__":
    main()
