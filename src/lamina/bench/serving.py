"""Server latency and throughput over loopback at several numbers of clients."""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from lamina.base.reading import read_lines
from lamina.errors import DataError
from lamina.translation import Translator, load

DOCUMENT = 200  # sentences
START_TIMEOUT = 180.0  # seconds to wait for the server


def measure_serving(
    run: Path, input_file: Path, beam: int, clients: Sequence[int], sentences: int, repeats: int, int8: bool
) -> dict[str, Any]:
    """Measure the numbers of `lamina bench serve`; the compared settings are interleaved."""
    lines = list(islice((line for line in read_lines(input_file) if line.strip()), sentences))
    if not lines:
        raise DataError(f"{input_file}: has no lines to translate.")
    translator = load(run, int8=int8)
    translator.translate(lines[:8], beam=beam)
    offline: list[float] = []
    alone: list[float] = []
    levels: dict[int, list[dict[str, float]]] = {count: [] for count in clients}
    beside: list[list[float]] = []
    with start_server(run, int8, "--max-texts", str(DOCUMENT), "--queue", "100000", "--timeout", "600") as port:
        asyncio.run(drive(port, lines[:64], beam, 8))  # warm-up
        for _ in range(repeats):
            offline.append(offline_rate(translator, lines, beam))
            alone += call_times(translator, lines, beam)
            for count in clients:
                levels[count].append(asyncio.run(measure_level(port, lines, beam, count)))
            beside.append(asyncio.run(beside_document(port, lines, beam)))
    rate = statistics.median(offline)
    report = [
        {"clients": count, **median_of(rounds), "of_offline": round(median_of(rounds)["tokens_per_second"] / rate, 3)}
        for count, rounds in levels.items()
    ]
    idle = next((level["p95_ms"] for level in report if level["clients"] == 1), None)
    waited = 1000 * statistics.median(percentile(times, 95) for times in beside)
    return {
        "sentences": len(lines),
        "beam": beam,
        "int8": int8,
        "threads": torch.get_num_threads(),
        "offline_tokens_per_second": round(rate),
        "in_process_p50_ms": round(1000 * statistics.median(alone), 2),
        "levels": report,
        "beside_document": {
            "document_sentences": DOCUMENT,
            "p95_ms": round(waited, 1),
            "of_idle_p95": None if idle is None else round(waited / idle, 2),
        },
    }


@contextmanager
def start_server(run: Path, int8: bool, *options: str) -> Iterator[int]:
    """Start `lamina serve` on a free port and yield the port."""
    command = [sys.executable, "-m", "lamina", "serve", f"--name=model={run}", "--port=0", *options]
    with start_process([*command, *(["--int8"] if int8 else []), "--ready-file"]) as port:
        yield port


@contextmanager
def start_process(command: Sequence[str]) -> Iterator[int]:
    """Start a server that writes its port to the file in its last argument; yield the port."""
    with TemporaryDirectory() as folder:
        ready_file = Path(folder) / "port"
        process = subprocess.Popen([*command, str(ready_file)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            yield asyncio.run(wait_until_ready(process, ready_file))
        finally:
            process.terminate()
            process.wait(60)


async def wait_until_ready(process: subprocess.Popen[bytes], ready_file: Path) -> int:
    """Wait until `/ready` answers 200 and return the port."""
    deadline = time.monotonic() + START_TIMEOUT
    while time.monotonic() < deadline and process.poll() is None:
        if ready_file.exists() and ready_file.read_text():
            connection = await Connection.open(int(ready_file.read_text()))
            status, _ = await connection.ask("GET", "/ready")
            connection.close()
            if status == 200:
                return int(ready_file.read_text())
        await asyncio.sleep(0.1)
    raise DataError("The server did not start; run `lamina serve RUN` to see why.")


class Connection:
    """A minimal keep-alive HTTP client, since server and clients share the cores."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def open(cls, port: int) -> Connection:
        """Connect to a local port."""
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def ask(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        """Send a request; return the status and the body of the response."""
        self.writer.write(f"{method} {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        return int(head[9:12]), await self.reader.readexactly(length)

    def close(self) -> None:
        """Close the connection."""
        self.writer.close()


def request_body(texts: Sequence[str], beam: int) -> bytes:
    """Body of a `/v1/translate` request."""
    return json.dumps({"texts": texts, "beam": beam}).encode()


async def drive(port: int, lines: Sequence[str], beam: int, clients: int) -> list[float]:
    """Send lines one by one from concurrent clients; return the latency of each in seconds."""
    bodies, times = iter([request_body([line], beam) for line in lines]), []

    async def client() -> None:
        connection = await Connection.open(port)
        for body in bodies:
            started = time.perf_counter()
            status, _ = await connection.ask("POST", "/v1/translate", body)
            times.append(time.perf_counter() - started)
            if status != 200:
                raise DataError(f"The server returned status {status}.")
        connection.close()

    await asyncio.gather(*(client() for _ in range(clients)))
    return times


async def measure_level(port: int, lines: Sequence[str], beam: int, clients: int) -> dict[str, float]:
    """Measure latency percentiles, throughput and the CPU time of the clients, which the wall time includes."""
    before, started, client_cpu = await tokens_written(port), time.perf_counter(), time.process_time()
    times = await drive(port, lines, beam, clients)
    seconds, client_cpu = time.perf_counter() - started, time.process_time() - client_cpu
    tokens = await tokens_written(port) - before
    latency = {f"p{rank}_ms": round(1000 * percentile(times, rank), 2) for rank in (50, 95, 99)}
    return {
        **latency,
        "tokens_per_second": round(tokens / seconds),
        "sentences_per_second": round(len(lines) / seconds, 1),
        "client_cpu_ms_per_sentence": round(1000 * client_cpu / len(lines), 3),
    }


async def tokens_written(port: int) -> float:
    """Total tokens from the server's metrics."""
    connection = await Connection.open(port)
    _, content = await connection.ask("GET", "/metrics")
    connection.close()
    counts = [line.rpartition(b" ")[2] for line in content.splitlines() if line.startswith(b"lamina_tokens_total")]
    return sum(map(float, counts))


async def beside_document(port: int, lines: Sequence[str], beam: int) -> list[float]:
    """Latencies in seconds of single sentences sent while a long document is being translated."""
    document = [lines[number % len(lines)] for number in range(DOCUMENT)]
    connection = await Connection.open(port)
    work = asyncio.create_task(connection.ask("POST", "/v1/translate", request_body(document, beam)))
    await asyncio.sleep(0.02)
    times: list[float] = []
    for line in lines:
        if work.done() and times:
            break
        times += await drive(port, [line], beam, 1)
    await work
    connection.close()
    return times


def offline_rate(translator: Translator, lines: Sequence[str], beam: int) -> float:
    """Offline throughput in tokens per second."""
    started = time.perf_counter()
    results = translator.translate(lines, beam=beam)
    return sum(len(result.tokens) for result in results) / (time.perf_counter() - started)


def call_times(translator: Translator, lines: Sequence[str], beam: int) -> list[float]:
    """Seconds of in-process calls with one sentence."""
    times = []
    for line in lines:
        started = time.perf_counter()
        translator.translate(line, beam=beam)
        times.append(time.perf_counter() - started)
    return times


def median_of(rounds: Sequence[dict[str, float]]) -> dict[str, float]:
    """Median of each metric over rounds."""
    return {name: statistics.median(each[name] for each in rounds) for name in rounds[0]}


def percentile(times: Sequence[float], rank: int) -> float:
    """Percentile of times (nearest rank)."""
    ordered = sorted(times)
    return ordered[min(len(ordered) - 1, int(len(ordered) * rank / 100))]
