"""What clients and operators do to a server: it answers at once, loses nothing, and returns to rest."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from serving_support import Running, start_server

HARD = {"beam": 20, "nbest": 20}


@pytest.fixture
def lines(pairs: Any) -> list[str]:
    return [english for english, _ in pairs]


@pytest.fixture(scope="module")
def small(models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server with a short queue and little patience."""
    limits = ["--queue", "40", "--timeout", "5", "--max-texts", "60", "--threads", "2"]
    with start_server(tmp_path_factory.mktemp("small"), models["fused"], *limits) as running:
        yield running


def at_rest(server: Running, seconds: float = 20) -> bool:
    """Whether nothing waits and nothing is decoded, soon."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if server.metric("lamina_queue_sentences") == server.metric("lamina_decoding_sentences") == 0:
            return True
        time.sleep(0.05)
    return False


def connect(server: Running) -> socket.socket:
    host, port = server.url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=30)


def post(body: bytes, length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    return b"POST /v1/translate HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%s" % (size, body)


def leave_in_work(server: Running, times: int, lines: list[str]) -> None:
    texts = ", ".join(f'"{line}"' for line in lines[:8])
    for _ in range(times):
        with connect(server) as client:
            client.sendall(post(b'{"texts": [%s], "beam": 20}' % texts.encode()))
            time.sleep(0.002)


def test_clients_that_leave_free_the_queue(server: Running, lines: list[str]) -> None:
    leave_in_work(server, 30, lines)
    assert at_rest(server)
    server.translate("A dog runs.")


def test_a_huge_body_is_refused_before_it_is_read(server: Running) -> None:
    with connect(server) as client:
        client.sendall(post(b"{", 10_000_000))
        assert client.recv(100).startswith(b"HTTP/1.1 413")
    response = server.post("/v1/translate", content=iter([b"x" * 100_000] * 100))
    assert response.status_code == 413
    assert response.json()["error"]["code"] == "too_large"


def test_a_long_line_is_refused(server: Running) -> None:
    assert server.post("/v1/translate", {"texts": ["a" * 1_000_000]}).status_code == 413


WEIRD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=50),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
FIELDS = st.fixed_dictionaries(
    {"texts": st.lists(st.text(max_size=60), min_size=1, max_size=2) | WEIRD},
    optional={
        "model": st.none() | st.sampled_from(["fused", "fix"]) | WEIRD,
        "beam": st.integers(1, 3) | WEIRD,
        "lenpen": st.floats() | WEIRD,
        "nbest": st.integers(-1, 3) | WEIRD,
        "prefixes": st.none() | st.lists(st.text(max_size=20), max_size=2) | WEIRD,
        "format": st.sampled_from([None, "text", "html", "srt", "vtt", "pdf"]) | WEIRD,
        "details": st.booleans() | WEIRD,
    },
)
ROUTES = st.sampled_from(["/v1/translate", "/v1/translate/stream", "/translate", "/detect", "/translate_file", "/v1/x"])
HOSTILE = st.tuples(
    ROUTES,
    FIELDS.map(lambda body: __import__("json").dumps(body).encode()) | st.binary(max_size=80),
    st.sampled_from(["application/json", "multipart/form-data; boundary=x", "", "a/b"]),
)


def hostile(server: Running, examples: int) -> None:
    with httpx.Client(base_url=server.url, timeout=60) as client:

        @settings(
            max_examples=examples,
            deadline=None,
            database=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate],  # a failure is told as it was found: shrinking takes thousands of requests
        )
        @given(HOSTILE)
        def attack(sent: tuple[str, bytes, str]) -> None:
            path, body, kind = sent
            response = client.post(path, content=body, headers={"content-type": kind})
            assert response.status_code < 500, response.text
            assert "Traceback" not in response.text

        attack()
    assert at_rest(server)


def test_hostile_requests(server: Running) -> None:
    hostile(server, 150)
    assert "Traceback" not in server.log.read_text()


@pytest.mark.slow
def test_many_hostile_requests(server: Running) -> None:
    hostile(server, 1000)
    before = server.memory()
    hostile(server, 9000)
    assert server.memory() < 1.1 * before
    assert "Traceback" not in server.log.read_text()


@pytest.mark.slow
def test_two_hundred_clients_leave(server: Running, lines: list[str]) -> None:
    leave_in_work(server, 100, lines)
    assert at_rest(server)
    before = server.memory()
    leave_in_work(server, 200, lines)
    assert at_rest(server)
    assert server.memory() < 1.1 * before
    assert server.metric('lamina_sentences_total{end="abandoned"') > 100


@pytest.mark.slow
def test_slow_bodies_do_not_stay(small: Running) -> None:
    with connect(small) as client:
        client.sendall(post(b'{"texts"', 1000))
        started = time.monotonic()
        answer = b""
        while time.monotonic() - started < 10 and b"slow_body" not in answer:
            with contextlib.suppress(TimeoutError, BrokenPipeError, ConnectionResetError):
                client.sendall(b" ")
            client.settimeout(0.3)
            with contextlib.suppress(TimeoutError):
                answer += client.recv(1000)
        assert answer.startswith(b"HTTP/1.1 400")
        assert time.monotonic() - started < 8
    small.translate("A dog runs.")


@pytest.mark.slow
def test_slow_headers_do_not_stay(small: Running) -> None:
    with connect(small) as client:
        client.sendall(b"POST /v1/translate HTTP/1.1\r\n")
        client.settimeout(15)
        assert client.recv(100) == b""  # closed, after ten seconds


@pytest.mark.slow
def test_a_full_queue_is_said_at_once(small: Running, lines: list[str]) -> None:
    with ThreadPoolExecutor(12) as pool:

        def ask(number: int) -> httpx.Response:
            return small.post("/v1/translate", {"texts": lines[number : number + 30], **HARD})

        answers = list(pool.map(ask, range(12)))
    assert {answer.status_code for answer in answers} <= {200, 503}
    refused = [answer for answer in answers if "overloaded" in answer.text]
    assert refused
    assert all("retry-after" in answer.headers for answer in refused)
    assert min(small.milliseconds(answer) for answer in refused) < 2000  # far from the deadline
    assert small.post("/v1/translate", {"texts": lines[:50]}).status_code == 413
    assert at_rest(small)
    small.translate("A dog runs.")


@pytest.mark.slow
def test_a_deadline_ends_a_request(models: dict[str, Path], tmp_path: Path, lines: list[str]) -> None:
    with start_server(tmp_path, models["fused"], "--timeout", "0.1", "--max-texts", "300") as server:
        response = server.post("/v1/translate", {"texts": lines[:300], **HARD})
        assert response.status_code == 503
        assert response.json()["error"]["code"] == "timeout"
        assert at_rest(server)


@pytest.mark.slow
def test_a_killed_worker_is_replaced_and_its_request_repeated(server: Running, lines: list[str]) -> None:
    before = server.worker()
    with ThreadPoolExecutor(1) as pool:
        work = pool.submit(server.post, "/v1/translate", {"texts": lines[:200], **HARD})
        while server.metric("lamina_decoding_sentences") == 0 and not work.done():
            time.sleep(0.01)
        os.kill(before, signal.SIGKILL)
        response = work.result()
    assert response.status_code in (200, 503), response.text
    server.wait_ready()
    assert server.worker() != before
    server.translate("A dog runs.")


@pytest.mark.slow
def test_a_worker_that_hangs_is_replaced(small: Running) -> None:
    before = small.worker()
    os.kill(before, signal.SIGSTOP)
    response = small.post("/v1/translate", {"texts": ["A dog runs."]})
    assert response.status_code == 503
    assert response.json()["error"]["code"] == "timeout"
    until = time.monotonic() + 40
    while Path(f"/proc/{before}").exists():
        assert time.monotonic() < until
        time.sleep(0.1)
    small.wait_ready()
    assert small.worker() != before
    assert at_rest(small)
    small.translate("A dog runs.")


@pytest.mark.slow
def test_sigterm_drains(models: dict[str, Path], tmp_path: Path, lines: list[str]) -> None:
    limits = ["--max-texts", "300", "--timeout", "300"]  # what is tested is the drain, not the deadline
    with start_server(tmp_path, models["fused"], *limits) as server, ThreadPoolExecutor(1) as pool:
        worker = server.worker()
        work = pool.submit(server.post, "/v1/translate", {"texts": lines[:60], **HARD})
        while server.metric("lamina_decoding_sentences") == 0:
            time.sleep(0.01)
        server.process.send_signal(signal.SIGTERM)
        assert work.result().status_code == 200
        assert server.process.wait(60) == 0
        assert not Path(f"/proc/{worker}").exists()
        with pytest.raises(httpx.ConnectError):
            server.get("/health")


@pytest.mark.slow
def test_reloading_under_load_loses_nothing(server: Running, lines: list[str]) -> None:
    before, finished = server.worker(), threading.Event()

    def ask(number: int) -> set[int]:
        seen, count = set(), 0
        while not finished.is_set():
            seen.add(server.post("/v1/translate", {"texts": [lines[(number + count) % 300]]}).status_code)
            count += 1
        return seen

    with ThreadPoolExecutor(4) as pool:
        work = [pool.submit(ask, 50 * number) for number in range(4)]
        assert server.post("/admin/reload").status_code == 200
        server.process.send_signal(signal.SIGHUP)
        time.sleep(6)
        finished.set()
        assert set().union(*(each.result() for each in work)) == {200}
    until = time.monotonic() + 60
    while server.log.read_text().count("models reloaded") < 2 or len(server.workers()) > 1:
        assert time.monotonic() < until
        time.sleep(0.1)
    assert server.worker() != before
    assert server.post("/admin/reload", headers={"x-forwarded-for": "1.2.3.4"}).status_code == 404


@pytest.mark.slow
def test_the_worker_ends_with_the_server(models: dict[str, Path], tmp_path: Path) -> None:
    with start_server(tmp_path, models["fix"]) as server:
        worker = server.worker()
        server.process.kill()
        server.process.wait()
        until = time.monotonic() + 10
        while Path(f"/proc/{worker}").exists() and time.monotonic() < until:
            time.sleep(0.05)
        assert not Path(f"/proc/{worker}").exists()


@pytest.mark.slow
def test_a_damaged_model_ends_the_server(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    command = [sys.executable, "-m", "lamina", "serve", str(tmp_path), "--port", "0"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert result.returncode == 3
    assert result.stderr.splitlines()[-1].startswith("lamina: ")
    assert "Traceback" not in result.stderr


@pytest.mark.slow
def test_memory_is_flat(server: Running, lines: list[str]) -> None:
    """20,000 requests of four clients; what they need is there after 2,000."""

    def ask(numbers: range) -> None:
        with httpx.Client(base_url=server.url, timeout=60) as client:
            for number in numbers:
                text = lines[number % len(lines)]
                assert client.post("/v1/translate", json={"texts": [text], "beam": 1}).status_code == 200

    def burst(first: int, count: int) -> None:
        with ThreadPoolExecutor(4) as pool:
            shares = [range(first + share, first + count, 4) for share in range(4)]
            list(pool.map(ask, shares))

    burst(0, 2000)
    before = server.memory()
    burst(2000, 18_000)
    assert server.memory() < 1.05 * before, f"{before:,} → {server.memory():,}"
