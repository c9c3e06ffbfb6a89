"""API keys and rate limits."""

from __future__ import annotations

import hmac
import math
import re
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

from lamina.errors import DataError, UsageError
from lamina.serving.refusals import Refusal

KNOWN_CLIENTS = 10_000  # whose requests are counted; the one not seen for longest is forgotten


class KeyRing:
    """API keys by name, from a file of `NAME KEY` or `KEY` lines."""

    def __init__(self, keys: dict[str, bytes]) -> None:
        self.keys = keys

    @classmethod
    def read(cls, path: Path) -> KeyRing:
        """The keys in a file; blank lines and those that start with # are skipped."""
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", error)
            raise DataError(f"{path}: cannot be read as a file of API keys ({reason}).") from error
        keys: dict[str, bytes] = {}
        for number, line in enumerate(lines, start=1):
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            if len(words) > 2 or len(words[-1]) < 8:
                raise DataError(f"{path}:{number}: must be `NAME KEY` or `KEY`, with a key of at least 8 characters.")
            name = words[0] if len(words) == 2 else f"key-{number}"
            if name in keys:
                raise DataError(f"{path}:{number}: duplicate name `{name}`.")
            keys[name] = words[-1].encode("utf-8")
        if not keys:
            raise DataError(f"{path}: has no keys; write one per line, or omit --api-keys.")
        return cls(keys)

    def check(self, given: str | None) -> str:
        """The name of a key; every key is compared, and each in constant time."""
        found = None
        offered = (given or "").encode("utf-8", "surrogatepass")
        for name, key in self.keys.items():
            if hmac.compare_digest(offered, key):
                found = name
        if found is None:
            raise Refusal(401, "unauthorized", "A valid API key is required: send it as `Authorization: Bearer KEY`.")
        return found


def key_of_headers(headers: dict[bytes, bytes]) -> str | None:
    """What a request's headers offer as a key."""
    scheme, _, value = headers.get(b"authorization", b"").partition(b" ")
    offered = value.strip() if scheme.lower() == b"bearer" else headers.get(b"x-api-key", b"")
    return offered.decode("latin-1") or None


def parse_rate(text: str) -> int:
    """`60/min` or `60`: requests per minute."""
    match = re.fullmatch(r"([1-9]\d{0,6})(?:/min)?", text)
    if match is None:
        raise UsageError(f"--rate must be requests per minute, such as `60/min`, but is `{text}` instead.")
    return int(match.group(1))


class RateLimit:
    """A bucket for each client that fills at the rate, and holds what ten seconds bring, but at least one request."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.per_second = per_minute / 60
        self.room = max(1.0, per_minute / 6)
        self.clock = clock
        self.buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # tokens, and when that was

    def take(self, client: str) -> None:
        """One request of this client."""
        now = self.clock()
        tokens, then = self.buckets.pop(client, (self.room, now))
        tokens = min(self.room, tokens + (now - then) * self.per_second)
        allowed = tokens >= 1
        self.buckets[client] = (tokens - 1 if allowed else tokens, now)
        if len(self.buckets) > KNOWN_CLIENTS:
            self.buckets.popitem(last=False)
        if not allowed:
            wait = math.ceil((1 - tokens) / self.per_second)
            raise Refusal(429, "rate_limited", f"Too many requests; try again in {wait} s.", retry_after=wait)
