"""A short campaign of kills and damage; `make test-faults` runs the long one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_nothing_is_lost(tmp_path: Path) -> None:
    campaign, summary = Path(__file__).with_name("campaign.py"), tmp_path / "summary.json"
    command = [sys.executable, campaign, "--kills", "25", "--damaged", "100", "--summary", summary]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
