"""Memory limits, measured with the benchmark scripts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
pytestmark = pytest.mark.slow


def run(script: str, *options: str) -> Any:
    return json.loads(subprocess.check_output([sys.executable, BENCHMARKS / script, *options], timeout=900))


def test_the_loss_adds_less_than_400_mb() -> None:
    added = run("loss_memory.py")["added_peak_mb"]
    for head in ("softmax", "surface hard", "surface soft", "pointer"):
        assert added[head] < 400
    assert added["pointer"] <= 1.3 * added["softmax"]


def test_a_long_document_is_summarised_in_bounded_memory() -> None:
    added = run("document_memory.py", "--length", "640")["added_peak_mb"]
    assert max(added.values()) < 200, added


def test_preparing_and_iterating_a_million_pairs() -> None:
    report = run("prepare_memory.py", "--pairs", "1000000")
    assert report["prepare"]["peak_anonymous_mb"] < 1500
    assert report["iterate"]["peak_anonymous_mb"] < 600
