"""Prevent torch from crashing on CPUs that report AMX but cannot execute it, as some virtual machines do.

oneDNN, which computes torch's 16-bit products on a CPU, trusts what the CPU reports; the first such product then kills
the process. So on a CPU that reports AMX a product is tried in a child process, once per machine and torch version.
If the child crashes, oneDNN is limited to AVX-512 by its own environment variable, which it reads at its first product.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from lamina.base.files import user_cache, write_file

VARIABLE, LIMIT = "ONEDNN_MAX_CPU_ISA", "AVX512_CORE_VNNI"
PROBE = (
    "import torch; x = torch.randn(64, 64).bfloat16(); "
    "torch.nn.functional.linear(x, x); torch.bmm(x[None], x[None]); x @ x"
)
SECONDS = 120  # timeout of the probe


def limit_instructions() -> str | None:
    """Limit oneDNN if this machine needs it; return a message for the user if so."""
    if VARIABLE in os.environ or not reports_amx() or amx_works():
        return None
    os.environ[VARIABLE] = LIMIT
    return f"this CPU reports AMX but cannot execute it; torch is limited to AVX-512 ({VARIABLE}={LIMIT})."


def reports_amx() -> bool:
    """Whether the CPU reports AMX; False if /proc/cpuinfo cannot be read."""
    try:
        return "amx_tile" in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False


def amx_works() -> bool:
    """Whether 16-bit products run without a crash; cached per machine and torch version."""
    folder = user_cache("onednn")
    record = None if folder is None else folder / f"{machine_key()}.json"
    if record is not None and record.is_file():
        try:
            return bool(json.loads(record.read_text(encoding="utf-8"))["works"])
        except (OSError, ValueError, KeyError, TypeError):
            pass
    works = probe()
    if record is not None:
        with suppress(OSError):  # a full disk, or another process that writes the same
            write_file(record, json.dumps({"works": works}) + "\n")
    return works


def probe() -> bool:
    """Whether 16-bit products run without a crash in a child process."""
    try:
        child = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return False
    return child.returncode == 0


def machine_key() -> str:
    """A digest of the CPU's description and torch's version."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    facts = sorted({line for line in lines if line.startswith(("model name", "flags", "stepping"))})
    return hashlib.sha256("\n".join([*facts, version("torch")]).encode()).hexdigest()[:16]
