"""The metrics of `/metrics`, for Prometheus: of this server only, without Python's defaults."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
SIZES = (1, 2, 4, 8, 16, 24, 32)


class Metrics:
    """Counters of one server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        own: dict[str, Any] = {"registry": self.registry}
        self.requests = Counter("lamina_requests", "Requests by route and status.", ["route", "status"], **own)
        self.seconds = Histogram("lamina_request_seconds", "Request latency.", ["route"], buckets=SECONDS, **own)
        self.sentences = Counter("lamina_sentences", "Sentences by outcome.", ["model", "end"], **own)
        self.tokens = Counter("lamina_tokens", "Output tokens, including eos.", ["model"], **own)
        self.batches = Histogram("lamina_batch_sentences", "Sentences per batch.", buckets=SIZES, **own)
        self.queue = Gauge("lamina_queue_sentences", "Sentences waiting in the queue.", **own)
        self.decoding = Gauge("lamina_decoding_sentences", "Sentences being decoded.", **own)
        self.ready = Gauge("lamina_ready", "1 if the models are loaded and ready.", **own)
        self.workers = Counter("lamina_workers_started", "Worker processes started.", **own)

    def render(self) -> bytes:
        """Prometheus' text format."""
        return generate_latest(self.registry)
