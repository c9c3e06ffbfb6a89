"""Signals during training."""

from __future__ import annotations

import os
import signal

import pytest

from lamina.training.signals import catch_signals


def test_ctrl_c_is_acknowledged_at_once_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, end = os.openpty()
    received: list[int] = []
    with os.fdopen(terminal, "rb", buffering=0) as screen, os.fdopen(end, "w") as stderr:
        monkeypatch.setattr("sys.stderr", stderr)
        with catch_signals(received):
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
        shown = screen.read(1000)
    assert received == [signal.SIGINT, signal.SIGINT]
    assert shown == b"\r\x1b[2KStopping after this step ...\r\n"
