"""CPUs that report AMX: a probe that fails limits oneDNN, once per machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lamina.base import onednn
from support import run_lamina


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv(onednn.VARIABLE, "x")  # so that monkeypatch restores it afterwards
    monkeypatch.delenv(onednn.VARIABLE)
    monkeypatch.setattr(onednn, "reports_amx", lambda: True)


def test_a_probe_that_dies_limits_the_instructions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onednn, "PROBE", "import os, signal; os.kill(os.getpid(), signal.SIGILL)")
    said = (
        "this CPU reports AMX but cannot execute it; torch is limited to AVX-512 (ONEDNN_MAX_CPU_ISA=AVX512_CORE_VNNI)."
    )
    assert onednn.limit_instructions() == said
    assert os.environ[onednn.VARIABLE] == onednn.LIMIT
    assert onednn.limit_instructions() is None, "the user's own limit, or ours, stays"


def test_the_result_is_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    probes: list[bool] = []
    monkeypatch.setattr(onednn, "probe", lambda: bool(probes.append(True)))
    for _ in range(3):
        os.environ.pop(onednn.VARIABLE, None)
        assert onednn.limit_instructions() is not None
    assert probes == [True]


def test_a_probe_that_works_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onednn, "PROBE", "pass")
    assert onednn.limit_instructions() is None
    assert onednn.VARIABLE not in os.environ


def test_without_amx_nothing_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onednn, "reports_amx", lambda: False)
    monkeypatch.setattr(onednn, "probe", lambda: pytest.fail("probed"))
    assert onednn.limit_instructions() is None


def test_the_limit_is_printed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onednn, "probe", lambda: False)
    first = run_lamina("systems")
    assert first.stderr.startswith("lamina: this CPU reports AMX but cannot execute it; torch is limited to AVX-512")
    assert run_lamina("systems", "--json").stderr == ""


SUITE = """
import os, sys
import pytest
from lamina.base import onednn
onednn.reports_amx, onednn.user_cache = (lambda: True), (lambda name: None)
onednn.PROBE = "import os, signal; os.kill(os.getpid(), signal.SIGILL)"
assert "torch" not in sys.modules
code = pytest.main([*sys.argv[1:], "-q", "-n", "0", "-p", "no:cacheprovider"])
print(os.environ.get(onednn.VARIABLE))
sys.exit(code)
"""


@pytest.mark.slow
def test_the_suite_itself_runs_where_amx_is_broken() -> None:
    """The tests of 16-bit numbers pass, and oneDNN was limited before torch was imported."""
    tests = Path(__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tests), os.environ.get("PYTHONPATH", "")])}
    del environment["XDG_CACHE_HOME"]  # of this test, where the engine would be compiled again
    command = [sys.executable, "-c", SUITE, str(tests / "contracts" / "test_every_combination.py")]
    done = subprocess.run(
        [*command, "-k", "test_other_dtypes and transformer"],
        env=environment,
        cwd=tests.parent,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == onednn.LIMIT
