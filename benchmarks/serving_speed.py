"""Latency and throughput of `lamina serve` and of CTranslate2 behind the same HTTP code, over loopback.

    pip install 'lamina[serve,ctranslate2]'
    python benchmarks/serving_speed.py RUN SOURCE [--sentences 1000] [--rounds 3] [--clients 1 --clients 64]

RUN is a run or model folder of a plain Transformer; SOURCE is text, one sentence per line. Beam 5, length penalty 1.
The two servers are interleaved. Prints JSON with medians.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from itertools import islice
from pathlib import Path

from lamina.base.reading import read_lines
from lamina.bench.serving import drive, measure_level, median_of, start_process, start_server

BEAM = 5


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("run", type=Path)
    parser.add_argument("source", type=Path)
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clients", type=int, action="append")
    options = parser.parse_args()
    lines = list(islice((line for line in read_lines(options.source) if line.strip()), options.sentences))
    clients = options.clients or [1, 8, 64]
    peer = [sys.executable, __file__, "--serve", str(options.run)]
    rounds: dict[str, dict[int, list[dict[str, float]]]] = {
        name: {count: [] for count in clients} for name in ("lamina", "ctranslate2")
    }
    with start_server(options.run, False, "--queue", "100000") as own, start_process(peer) as other:
        ports = {"lamina": own, "ctranslate2": other}
        for port in ports.values():
            asyncio.run(drive(port, lines[:64], BEAM, 8))
        for _ in range(options.rounds):
            for count in clients:
                for name, port in ports.items():
                    rounds[name][count].append(asyncio.run(measure_level(port, lines, BEAM, count)))
    report = {
        name: [{"clients": count, **median_of(each)} for count, each in levels.items()]
        for name, levels in rounds.items()
    }
    print(json.dumps({"sentences": len(lines), "beam": BEAM, **report}, indent=2))


def serve_peer(run: Path, ready_file: Path) -> None:
    from lamina.serving.options import ServeOptions
    from lamina.serving.server import run_server

    worker = (str(Path(__file__).with_name("ctranslate2_worker.py")),)
    run_server(ServeOptions({"model": run}, port=0, queue=100_000, ready_file=ready_file, worker=worker))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve_peer(Path(sys.argv[2]), Path(sys.argv[3]))
    else:
        main()
