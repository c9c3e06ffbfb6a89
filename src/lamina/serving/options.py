"""The options of `lamina serve`, and fixed limits."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

MAX_BEAM = MAX_NBEST = 20
BATCH_SENTENCES = 32  # decoded together, at most
BATCH_CHARS = 24_000  # of a batch of more than one sentence
MAX_CONNECTIONS = 2000
HEADER_SECONDS, HEADER_BYTES = 10.0, 32_768  # until a request's headers must be complete
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


@dataclass(frozen=True)
class ServeOptions:
    """The flags of `lamina serve`."""

    models: dict[str, Path]  # by the name that requests use; the first is the default
    host: str = "127.0.0.1"
    port: int = 8000
    api_keys: Path | None = None
    max_chars: int = 5000  # of one text
    max_texts: int = 100  # of one request
    queue: int = 1000  # sentences that wait or are decoded
    timeout: float = 30.0  # seconds, of one request
    rate: int | None = None  # requests per minute, of one key or address
    url_prefix: str = ""
    int8: bool = False
    threads: int | None = None
    log_text: bool = False
    ready_file: Path | None = None  # receives the port once the server listens
    worker: tuple[str, ...] = ("-m", "lamina.serving.worker")  # what Python runs; benchmarks put another engine there

    @property
    def max_document(self) -> int:
        """Characters of an uploaded file: as many as a request full of texts may have."""
        return self.max_chars * self.max_texts

    @property
    def max_body(self) -> int:
        """Bytes of a request: every character may be written as `\\u1234\\u1234`."""
        return min(12 * self.max_chars * self.max_texts, 8_000_000) + 65_536
