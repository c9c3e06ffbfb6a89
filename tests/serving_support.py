"""A server process for tests over sockets."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx


@dataclass
class Running:
    """A server process and its client."""

    process: subprocess.Popen[bytes]
    url: str
    log: Path

    def get(self, path: str, **more: Any) -> httpx.Response:
        return httpx.get(f"{self.url}{path}", timeout=300, **more)

    def post(self, path: str, body: Any = None, **more: Any) -> httpx.Response:
        if body is not None:
            more["json"] = body
        return httpx.post(f"{self.url}{path}", timeout=300, **more)

    def translate(self, *texts: str, **more: Any) -> Any:
        response = self.post("/v1/translate", {"texts": list(texts), **more})
        assert response.status_code == 200, response.text
        return response.json()

    def milliseconds(self, response: httpx.Response) -> float:
        """Processing time of a response, from the server's log."""
        (line,) = [each for each in self.log.read_text().splitlines() if response.headers["x-request-id"] in each]
        return float(line.split()[-1].removesuffix("ms"))

    def worker(self) -> int:
        """The worker's process id."""
        (worker,) = self.workers()
        return worker

    def workers(self) -> list[int]:
        """Process ids of all workers, also while one replaces another."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return [int(child) for child in children if b"lamina.serving.worker" in command_line(int(child))]

    def memory(self) -> int:
        """Resident bytes of front end and worker."""
        return sum(resident(pid) for pid in (self.process.pid, self.worker()))

    def wait_ready(self, seconds: float = 240) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            assert self.process.poll() is None, self.log.read_text()
            if self.get("/ready").status_code == 200:
                return
            time.sleep(0.1)
        raise AssertionError(self.log.read_text())

    def metric(self, name: str) -> float:
        lines = self.get("/metrics").text.splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))


def command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def start_server(folder: Path, *arguments: str | Path, wait: bool = True) -> Iterator[Running]:
    """Run `lamina serve` for the duration of the context, with at most two engine threads."""
    told, log = folder / f"port-{time.monotonic_ns()}", folder / f"log-{time.monotonic_ns()}"
    command = [sys.executable, "-m", "lamina", "serve", "--port", "0", "--ready-file", str(told), *map(str, arguments)]
    with log.open("wb") as stream:
        process = subprocess.Popen(command, stdout=stream, stderr=stream)
    try:
        until = time.monotonic() + 120
        while not (told.exists() and told.read_text()):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < until, log.read_text()
            time.sleep(0.02)
        running = Running(process, f"http://127.0.0.1:{told.read_text()}", log)
        if wait:
            running.wait_ready()
        yield running
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(40)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def json_lines(content: str) -> list[tuple[str, Any]]:
    """Parse server-sent events."""
    found = []
    for part in content.strip().split("\n\n"):
        name, data = part.split("\n")
        found.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return found
