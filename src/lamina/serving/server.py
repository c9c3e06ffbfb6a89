"""The life of `lamina serve`: sockets, signals, the first worker, draining."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from collections.abc import Iterator
from typing import Any

import uvicorn

from lamina.errors import UsageError
from lamina.serving.app import make_app
from lamina.serving.connections import BoundedProtocol
from lamina.serving.guard import Guard
from lamina.serving.keys import KeyRing
from lamina.serving.metrics import Metrics
from lamina.serving.options import LOOPBACK, ServeOptions
from lamina.serving.scheduler import Scheduler
from lamina.serving.service import Service
from lamina.serving.workers import LoadingError, Supervisor

BACKLOG = 1024  # connections that wait to be accepted

log = logging.getLogger("lamina.serve")


class QuietServer(uvicorn.Server):
    """uvicorn without its own signal handling, so that we choose when it stops and its exit code."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are handled in `serve`."""
        yield


def run_server(options: ServeOptions) -> None:
    """Serve until SIGTERM or Ctrl-C; models that cannot be loaded end it with their error."""
    keys = None if options.api_keys is None else KeyRing.read(options.api_keys)
    listener = listen(options.host, options.port)
    set_up_logging()
    if options.host not in LOOPBACK:
        log.warning(
            "listening on %s: anyone who can reach this machine can %s. Put a TLS proxy in front of it.",
            options.host,
            "connect to the server" if keys else "use the server without a key (--api-keys)",
        )
    with listener, asyncio.Runner(loop_factory=loop_factory()) as runner:
        failure = runner.run(serve(options, keys, listener))
    if failure is not None:
        raise failure


def listen(host: str, port: int) -> socket.socket:
    """The socket of the server."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        # a name that cannot be resolved has a negative number, and Python appends the address
        known = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error.strerror)
        reason = known.partition(" (while")[0].lower()
        raise UsageError(f"Cannot listen on {host}:{port}: {reason}. Choose another --host or --port.") from None


def loop_factory() -> Any:
    """uvloop, where there is one."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def set_up_logging() -> None:
    """One line per event on stderr; uvicorn says only what went wrong."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%S"))
    for name, level in (("lamina.serve", logging.INFO), ("uvicorn", logging.ERROR)):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)


async def serve(options: ServeOptions, keys: KeyRing | None, listener: socket.socket) -> LoadingError | None:
    """The server's whole life; the error if its models could not be loaded at first."""
    metrics = Metrics()
    scheduler = Scheduler(options.queue, metrics)
    supervisor = Supervisor(options, scheduler, metrics)
    app = make_app(Service(options, scheduler, supervisor))
    guard = Guard(app, app.paths, options, metrics, keys)
    server = QuietServer(
        uvicorn.Config(
            guard, http=BoundedProtocol, ws="none", lifespan="off",
            log_config=None, access_log=False, server_header=False, date_header=False, proxy_headers=False,
            timeout_keep_alive=75, timeout_graceful_shutdown=int(options.timeout) + 5, backlog=BACKLOG,
        )
    )  # fmt: skip
    loop = asyncio.get_running_loop()
    failures: list[LoadingError] = []

    async def load() -> None:
        try:
            await supervisor.start()
            names = ", ".join(model["name"] for model in supervisor.models)
            log.info("ready: %s", names)
        except LoadingError as error:
            failures.append(error)
            server.should_exit = True

    async def reload() -> None:
        try:
            await supervisor.reload()
        except LoadingError as error:
            log.error("reload failed, keeping the old models: %s", error)

    tasks: set[asyncio.Task[None]] = set()

    def begin(work: Any) -> None:
        task = asyncio.create_task(work())
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    def stop() -> None:
        log.info("stopping: finishing requests in progress")
        server.should_exit = True

    for name in ("SIGTERM", "SIGINT"):
        loop.add_signal_handler(getattr(signal, name), stop)
    loop.add_signal_handler(signal.SIGHUP, begin, reload)
    begin(load)
    announcement = asyncio.create_task(announce(server, options))
    try:
        await server.serve([listener])
    finally:
        for task in (announcement, *tasks):
            task.cancel()
        await supervisor.stop()
    return failures[0] if failures else None


async def announce(server: uvicorn.Server, options: ServeOptions) -> None:
    """Say where the server listens, once it does."""
    while not server.started:
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    host = f"[{options.host}]" if ":" in options.host else options.host
    log.info("http://%s:%d%s/", host, port, options.url_prefix)
    if options.ready_file is not None:
        options.ready_file.write_text(str(port))
