"""Middleware for every route: request ids, body limits, keys, rate limits, errors without secrets, one log line."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from typing import Any

from lamina.serving.keys import KeyRing, RateLimit, key_of_headers
from lamina.serving.metrics import Metrics
from lamina.serving.options import ServeOptions
from lamina.serving.refusals import Refusal, too_large

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

OPEN = frozenset({"/", "/health", "/ready", "/metrics", "/docs", "/openapi.json", "/frontend/settings", "/languages"})
DIALECT = frozenset({"/translate", "/detect", "/translate_file"})  # the key may be in the body
SECURITY = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        b"base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    ),
]

log = logging.getLogger("lamina.serve")


class Guard:
    """ASGI middleware around the whole application."""

    def __init__(
        self, app: App, paths: Collection[str], options: ServeOptions, metrics: Metrics, keys: KeyRing | None
    ) -> None:
        """`paths` are those of the routes, which requests are counted by."""
        self.app, self.paths, self.options, self.metrics, self.keys = app, paths, options, metrics, keys
        self.rate = None if options.rate is None else RateLimit(options.rate)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, from its first byte to its log line."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        exchange = Exchange(scope, receive, send)
        try:
            if self.options.url_prefix and scope["path"] == self.options.url_prefix:
                await exchange.redirect(f"{self.options.url_prefix}/")
                return
            self.strip_prefix(scope)
            self.identify(scope, exchange)
            body = await exchange.read_body(self.options.max_body, self.options.timeout)
            if body is not None:
                await self.app(scope, exchange.replay(body), exchange.send)
        except Refusal as refusal:
            await exchange.refuse(refusal)
        except Exception:
            log.exception("id=%s failed", exchange.id)
            await exchange.refuse(
                Refusal(500, "internal", f"Internal error; see request {exchange.id} in the server log.")
            )
        finally:
            self.record(scope, exchange)

    def strip_prefix(self, scope: Scope) -> None:
        """Routes are written without `--url-prefix`."""
        prefix, path = self.options.url_prefix, scope["path"]
        if not path.startswith(f"{prefix}/"):
            raise Refusal(404, "not_found", "Not found.")
        scope["path"] = path[len(prefix) :] or "/"
        scope["raw_path"] = scope["path"].encode("utf-8", "surrogatepass")

    def identify(self, scope: Scope, exchange: Exchange) -> None:
        """Who asks, by key or by address, and whether that was too often."""
        path = scope["path"]
        scope["lamina.id"], scope["lamina.guard"] = exchange.id, self
        if path in OPEN or path.startswith(("/static/", "/download_file/")):  # whose names cannot be guessed
            return
        client = (scope.get("client") or ("unknown",))[0]
        given = key_of_headers(dict(scope["headers"]))
        if self.keys is not None and not (given is None and path in DIALECT):
            exchange.client = self.keys.check(given)
        if self.rate is not None and (self.keys is None or exchange.client is not None):
            self.rate.take(exchange.client or client)

    def check_late(self, scope: Scope, given: str | None) -> None:
        """LibreTranslate's `api_key` may be in the body: its routes check it if no header has one."""
        headers = dict(scope["headers"])
        if self.keys is None or key_of_headers(headers) is not None:
            return
        name = self.keys.check(given)
        if self.rate is not None:
            self.rate.take(name)

    def record(self, scope: Scope, exchange: Exchange) -> None:
        """Count the request and log it, never with its query or body."""
        known = scope["path"] if scope["path"] in self.paths else "other"  # of requests refused before routing
        route = getattr(scope.get("route"), "path", "") or known
        taken = time.perf_counter() - exchange.started
        status = exchange.status or 499  # the client left first
        self.metrics.requests.labels(route, status).inc()
        self.metrics.seconds.labels(route).observe(taken)
        who = f" key={exchange.client}" if exchange.client else ""
        log.info("id=%s %s %s %d %.1fms%s", exchange.id, scope["method"], route, status, 1000 * taken, who)


class Exchange:
    """One request and its answer."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope, self._receive, self._send = scope, receive, send
        self.id = secrets.token_hex(6)
        self.started = time.perf_counter()
        self.status: int | None = None
        self.client: str | None = None

    async def read_body(self, most: int, seconds: float) -> bytes | None:
        """The whole body, within its bounds; nothing if the client left."""
        declared = dict(self.scope["headers"]).get(b"content-length", b"")
        if declared.isdigit() and int(declared) > most:
            raise too_large("bytes per request", most, int(declared))
        chunks: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(seconds):
                while True:
                    message = await self._receive()
                    if message["type"] == "http.disconnect":
                        return None
                    chunk = message.get("body", b"")
                    size += len(chunk)
                    if size > most:
                        raise too_large("bytes per request", most, size)
                    chunks.append(chunk)
                    if not message.get("more_body", False):
                        return b"".join(chunks)
        except TimeoutError:
            raise Refusal(400, "slow_body", f"The request did not arrive within {seconds:g} s.") from None

    def replay(self, body: bytes) -> Receive:
        """The body once more for the application, and then whatever else happens to the connection."""
        remaining: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Message:
            return remaining.pop() if remaining else await self._receive()

        return receive

    async def send(self, message: Message) -> None:
        """Pass on an answer; it says its request's id."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [*message.get("headers", ()), (b"x-request-id", self.id.encode()), *SECURITY]
        await self._send(message)

    async def redirect(self, place: str) -> None:
        """The page's own links are relative: it must end with a slash."""
        headers = [(b"location", place.encode()), (b"content-length", b"0")]
        await self.send({"type": "http.response.start", "status": 307, "headers": headers})
        await self.send({"type": "http.response.body", "body": b""})

    async def refuse(self, refusal: Refusal) -> None:
        """An error as JSON, in the words of the API that was called."""
        if self.status is not None:  # the answer has begun: all that is left is to end it
            return
        content, headers = error_answer(self.scope["path"], refusal)
        await self.send({"type": "http.response.start", "status": refusal.status, "headers": headers})
        await self.send({"type": "http.response.body", "body": content})


def error_answer(path: str, refusal: Refusal) -> tuple[bytes, list[tuple[bytes, bytes]]]:
    """The body and headers of a refusal: `/v1` names a code, the dialect has a sentence only."""
    message = {"code": refusal.code, "message": refusal.message}
    content = json.dumps({"error": refusal.message if path in DIALECT else message}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
    if refusal.retry_after is not None:
        headers.append((b"retry-after", str(refusal.retry_after).encode()))
    if refusal.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if refusal.code in ("slow_body", "too_large"):
        headers.append((b"connection", b"close"))  # the rest of the body is not read
    return content, headers
