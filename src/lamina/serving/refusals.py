"""Reasons to refuse a request: a status, a code for programs and a message for people."""

from __future__ import annotations

from lamina.base.wording import counted


class Refusal(Exception):
    """An answer other than 200."""

    def __init__(self, status: int, code: str, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.retry_after = status, code, message, retry_after


def overloaded(waiting: int) -> Refusal:
    """The queue is full."""
    message = f"The queue has no room ({counted(waiting, 'sentence')} ahead); try again in a moment."
    return Refusal(503, "overloaded", message, retry_after=1)


def too_late(seconds: float) -> Refusal:
    """The deadline passed."""
    return Refusal(503, "timeout", f"Not finished within {seconds:g} s; send less text or try again.", 1)


def not_ready() -> Refusal:
    """No worker has its models loaded."""
    return Refusal(503, "not_ready", "The models are loading; try again in a moment.", retry_after=2)


def worker_lost() -> Refusal:
    """Two workers died while they decoded this."""
    return Refusal(503, "worker_lost", "The translation was interrupted twice; try again.", retry_after=2)


def too_large(what: str, most: int, found: int) -> Refusal:
    """A limit was exceeded."""
    return Refusal(413, "too_large", f"{what}: at most {most:,}, but there are {found:,}.")
