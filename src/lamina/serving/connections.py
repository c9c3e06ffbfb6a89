"""Connections with limits: headers must be short and arrive in time."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from lamina.serving.options import HEADER_BYTES, HEADER_SECONDS, MAX_CONNECTIONS


class BoundedProtocol(HttpToolsProtocol):
    """HTTP as uvicorn speaks it, but with limits on the time and size of headers and on the number of connections."""

    _timer: asyncio.TimerHandle | None = None
    _bytes = 0

    def connection_made(self, transport: Any) -> None:
        """A new client; beyond the limit it is turned away."""
        super().connection_made(transport)
        if len(self.connections) > MAX_CONNECTIONS:
            transport.close()
        else:
            self._wait()

    def data_received(self, data: bytes) -> None:
        """Count bytes until a request's headers are complete."""
        if self._timer is not None or self.cycle is None or self.cycle.response_complete:
            if self._timer is None:
                self._wait()
            self._bytes += len(data)
            if self._bytes > HEADER_BYTES and len(data) < self._bytes:  # many pieces, and still no end of headers
                self.transport.close()
                return
        super().data_received(data)

    def on_headers_complete(self) -> None:
        """The headers are there in time."""
        self._stop_waiting()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timeout."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._bytes = 0
        self._timer = self.loop.call_later(HEADER_SECONDS, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
