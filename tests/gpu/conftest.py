"""These tests need their own process, in which the simulated GPU is loaded before torch: `make gpu`."""

from __future__ import annotations

import os
import sys

import pytest

GHOST = sys.modules.get("gpu.ghost")
collect_ignore_glob = [] if GHOST is not None else ["test_*.py"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests without a compiler; in CI they fail."""
    if GHOST is None or GHOST.MISSING is None:
        return
    if os.environ.get("CI"):
        raise pytest.UsageError(f"the simulated GPU is missing: {GHOST.MISSING}")
    for item in items:
        item.add_marker(pytest.mark.skip(reason=GHOST.MISSING))
