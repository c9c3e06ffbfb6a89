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
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from serving_support import Running, start_server
from support import run_lamina

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


def wait_until(condition: Callable[[], bool], seconds: float = 240) -> None:
    """The limit only ends a test that would never end."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def in_work(server: Running) -> float:
    """Sentences that wait or are decoded."""
    return server.metric("lamina_queue_sentences") + server.metric("lamina_decoding_sentences")


def comes_to_rest(server: Running) -> None:
    wait_until(lambda: in_work(server) == 0)


@contextlib.contextmanager
def standing_still(server: Running) -> Iterator[int]:
    """The server's worker makes no progress meanwhile, however fast or busy the machine is."""
    worker = server.worker()
    os.kill(worker, signal.SIGSTOP)
    try:
        yield worker
    finally:
        os.kill(worker, signal.SIGCONT)


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
    comes_to_rest(server)
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
    comes_to_rest(server)


def test_hostile_requests(server: Running) -> None:
    hostile(server, 60)
    assert "Traceback" not in server.log.read_text()


@pytest.mark.slow
def test_many_hostile_requests(server: Running) -> None:
    hostile(server, 1000)
    before = server.memory()
    hostile(server, 9000)
    after = server.memory()
    print(f"resident after 1,000 requests: {before:,} bytes, after 10,000: {after:,}")
    assert after < 1.1 * before
    assert "Traceback" not in server.log.read_text()


@pytest.mark.slow
def test_two_hundred_clients_leave(server: Running, lines: list[str]) -> None:
    leave_in_work(server, 100, lines)
    comes_to_rest(server)
    before = server.memory()
    leave_in_work(server, 200, lines)
    comes_to_rest(server)
    assert server.memory() < 1.1 * before
    assert server.metric('lamina_sentences_total{end="abandoned"') > 100


@pytest.mark.slow
def test_slow_bodies_do_not_stay(small: Running) -> None:
    with connect(small) as client:
        client.sendall(post(b'{"texts"', 1000))
        answer, sent = b"", 8
        client.settimeout(0.3)
        while not answer and sent < 900:  # the body is never complete
            with contextlib.suppress(TimeoutError):
                answer = client.recv(1000)
            sent += 0 if answer else client.send(b" ")
        client.settimeout(30)
        while b"}" not in answer:  # headers and body may arrive separately
            answer += client.recv(1000)
        assert answer.startswith(b"HTTP/1.1 400")
        assert b"slow_body" in answer
    small.translate("A dog runs.")


@pytest.mark.slow
def test_slow_headers_do_not_stay(small: Running) -> None:
    with connect(small) as client:
        client.sendall(b"POST /v1/translate HTTP/1.1\r\n")
        client.settimeout(60)
        assert client.recv(100) == b""  # closed, after ten seconds


@pytest.mark.slow
def test_a_full_queue_is_said_at_once(models: dict[str, Path], tmp_path: Path, lines: list[str]) -> None:
    limits = ["--queue", "40", "--timeout", "300"]
    with start_server(tmp_path, models["fused"], *limits) as server, ThreadPoolExecutor(1) as pool:
        with standing_still(server):
            work = pool.submit(server.post, "/v1/translate", {"texts": lines[:30]})
            wait_until(lambda: in_work(server) == 30)
            refused = server.post("/v1/translate", {"texts": lines[:30]})  # answered while nothing is decoded
            assert refused.status_code == 503
            assert refused.json()["error"]["code"] == "overloaded"
            assert int(refused.headers["retry-after"]) >= 1
            assert server.post("/v1/translate", {"texts": lines[:50]}).status_code == 413
            assert not work.done()
        assert work.result().status_code == 200
        comes_to_rest(server)
        server.translate(*lines[:30])


@pytest.mark.slow
def test_a_deadline_ends_a_request(models: dict[str, Path], tmp_path: Path, lines: list[str]) -> None:
    with start_server(tmp_path, models["fused"], "--timeout", "0.1", "--max-texts", "300") as server:
        response = server.post("/v1/translate", {"texts": lines[:300], **HARD})
        assert response.status_code == 503
        assert response.json()["error"]["code"] == "timeout"
        comes_to_rest(server)


@pytest.mark.slow
def test_a_killed_worker_is_replaced_and_its_request_repeated(
    models: dict[str, Path], tmp_path: Path, lines: list[str]
) -> None:
    limits = ["--timeout", "300"]  # a new worker may need longer than usual on a busy machine
    with start_server(tmp_path, models["fused"], *limits) as server, ThreadPoolExecutor(1) as pool:
        expected = server.translate(*lines[:60])
        before = server.worker()
        os.kill(before, signal.SIGSTOP)
        work = pool.submit(server.translate, *lines[:60])
        wait_until(lambda: in_work(server) == 60)
        os.kill(before, signal.SIGKILL)
        assert work.result() == expected
        assert server.worker() != before


@pytest.mark.slow
def test_a_worker_that_hangs_is_replaced(small: Running) -> None:
    before = small.worker()
    os.kill(before, signal.SIGSTOP)
    response = small.post("/v1/translate", {"texts": ["A dog runs."]})
    assert response.status_code == 503
    assert response.json()["error"]["code"] == "timeout"
    wait_until(lambda: not Path(f"/proc/{before}").exists())
    small.wait_ready()
    assert small.worker() != before
    comes_to_rest(small)
    small.translate("A dog runs.")


@pytest.mark.slow
def test_sigterm_drains(models: dict[str, Path], tmp_path: Path, lines: list[str]) -> None:
    limits = ["--max-texts", "300", "--timeout", "300"]  # what is tested is the drain, not the deadline
    with start_server(tmp_path, models["fused"], *limits) as server, ThreadPoolExecutor(1) as pool:
        worker = server.worker()
        with standing_still(server):
            work = pool.submit(server.post, "/v1/translate", {"texts": lines[:60]})
            wait_until(lambda: in_work(server) == 60)
            server.process.send_signal(signal.SIGTERM)
            wait_until(lambda: "stopping" in server.log.read_text())
        assert work.result().status_code == 200
        assert server.process.wait(240) == 0
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
        wait_until(lambda: server.log.read_text().count("models reloaded") == 2)
        finished.set()
        assert set().union(*(each.result() for each in work)) == {200}
    wait_until(lambda: len(server.workers()) == 1)
    assert server.worker() != before
    for proxied in (
        {"x-forwarded-for": "1.2.3.4"},
        {"x-real-ip": "1.2.3.4"},
        {"x-forwarded-proto": "https"},
        {"via": "1"},
    ):
        assert server.post("/admin/reload", headers=proxied).status_code == 404, proxied


@pytest.mark.slow
def test_the_worker_ends_with_the_server(models: dict[str, Path], tmp_path: Path) -> None:
    with start_server(tmp_path, models["fix"]) as server:
        worker = server.worker()
        server.process.kill()
        server.process.wait()
        wait_until(lambda: not Path(f"/proc/{worker}").exists())


@pytest.mark.slow
def test_a_damaged_model_ends_the_server(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    command = [sys.executable, "-m", "lamina", "serve", str(tmp_path), "--port", "0"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert result.returncode == 3
    assert result.stderr.splitlines()[-1].startswith("lamina: ")
    assert "Traceback" not in result.stderr


@pytest.mark.slow
def test_an_onnx_export_ends_the_server(models: dict[str, Path], tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    out = tmp_path / "onnx"
    assert run_lamina("export", models["mixed"], "--to", "onnx", "--out", out).returncode == 0
    command = [sys.executable, "-m", "lamina", "serve", str(models["fix"]), str(out), "--port", "0"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=240)
    message = "lamina: An ONNX export can only translate; use the run or model folder that was exported."
    assert (result.returncode, result.stderr.splitlines()[-1]) == (2, message)
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
    after = server.memory()
    print(f"resident after 2,000 requests: {before:,} bytes, after 20,000: {after:,}")
    assert after < 1.05 * before
