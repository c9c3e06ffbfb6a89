"""Compiles the engine once per machine and caches the result.

The first use starts a child process that compiles for the best instruction set the CPU reports and runs a self-test.
If the child crashes (some virtual machines report instructions that they cannot execute), the next set is tried.
Compiled code is cached in a folder named by a digest of the CPU, the compilers and the engine's sources, because numba
does not invalidate its cache when an imported module changes.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import llvmlite
import llvmlite.binding as llvm
import numba

from lamina.base import cpu
from lamina.base.files import digest, user_cache, write_file
from lamina.base.processes import end_with_parent
from lamina.errors import LaminaError

if TYPE_CHECKING:
    from lamina.engine.engine import Engine
    from lamina.model.seq2seq import Seq2Seq

COMPILED = (  # modules with compiled code
    "base/cpu.py",
    *(f"engine/{name}.py" for name in ("vectors", "tuning", "products", "int8", "operations", "machine")),
    *(f"engine/{name}.py" for name in ("search", "signatures")),
    "search/rules.py",
    "text/vocabulary.py",
)
READY = "ready.json"  # the instruction set, and the digests of the compiled files
KEPT = 30  # maximum number of folders for other machines, versions and settings
SECONDS = 3600  # timeout of the self-test, generous for busy machines


class EntryPoints(NamedTuple):
    """The compiled functions that Python calls: see `search` and `machine`."""

    encode: Any
    decode: Any
    execute: Any

    @property
    def machine(self) -> int:
        """The address of `execute`, for `encode` and `decode`."""
        (compiled,) = self.execute.overloads.values()
        return int(compiled.library.get_pointer_to_function(compiled.fndesc.llvm_cfunc_wrapper_name))


def make_engine(models: Sequence[Seq2Seq], int8: bool = False) -> Engine:
    """Build an engine for one model or an ensemble; raise `UnsupportedModule` if it cannot run a module."""
    ready_folder()  # chooses the instruction set before the following imports
    from lamina.engine.engine import Engine
    from lamina.engine.lowering import lower
    from lamina.engine.workspace import join_weights

    lowered = lower(models, int8)
    return Engine(lowered, join_weights(lowered.program))


@cache
def entry_points() -> EntryPoints:
    """The compiled functions."""
    return EntryPoints(*map(entry_point, EntryPoints._fields))


@cache
def entry_point(name: str) -> Any:
    """Load a compiled function from the cache, or compile it."""
    folder = ready_folder()
    from lamina.engine import machine, search, signatures, vectors

    if cpu.chosen_set() != vectors.INSTRUCTION_SET:
        raise RuntimeError("lamina.engine.vectors was imported before an instruction set was chosen.")
    function = getattr(machine if name == "execute" else search, name).py_func
    signature = getattr(signatures, name.upper())
    with numba_cache(folder):
        return numba.njit(signature, error_model="numpy", nogil=True, cache=folder is not None)(function)


@cache
def ready_folder() -> Path | None:
    """The folder of compiled functions, whose instruction set is chosen as well; None if no folder is writable."""
    if os.environ.get(cpu.CHOICE_VARIABLE):  # a self-test, or an explicit choice
        given = os.environ.get("LAMINA_ENGINE_CACHE")
        return Path(given) if given else None
    root = user_cache("engine")
    if root is None:
        return None
    folder = root / key()
    with lock(root / f"{folder.name}.lock"):
        chosen = read_ready(folder)
        if chosen is None:
            chosen = compile_in_child(folder)
            remove_others(root, folder)
    folder.touch()
    cpu.choose(chosen)
    return folder


def compile_in_child(folder: Path) -> str:
    """Compile for the best instruction set that passes the self-test, and return its name."""
    for each in cpu.usable_sets():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        print(f"lamina: compiling the CPU engine for {each.name} (once, 20 to 30 s) …", file=sys.stderr)
        environment = {**os.environ, cpu.CHOICE_VARIABLE: each.name, "LAMINA_ENGINE_CACHE": str(folder)}
        command = [sys.executable, "-m", "lamina.engine.selftest"]
        child = subprocess.run(
            command, env=environment, capture_output=True, timeout=SECONDS, check=False, preexec_fn=end_with_parent
        )
        if child.returncode == 0:
            digests = {str(path.relative_to(folder)): digest(path) for path in sorted(folder.rglob("*.nb?"))}
            write_file(folder / READY, json.dumps({"instruction_set": each.name, "files": digests}, indent=2))
            return each.name
        last = " ".join(child.stderr.decode("utf-8", "replace").strip().splitlines()[-1:])
        reason = f": {last}" if last else "."
        print(f"lamina: {each.name} failed on this CPU (exit code {child.returncode}){reason}", file=sys.stderr)
    raise LaminaError("The CPU engine does not work on this machine; run `lamina doctor` for details.")


def read_ready(folder: Path) -> str | None:
    """The instruction set that a folder was compiled for; None if it is incomplete or damaged."""
    try:
        ready = json.loads((folder / READY).read_text(encoding="utf-8"))
        whole = all(digest(folder / name) == expected for name, expected in ready["files"].items())
        known = any(each.name == ready["instruction_set"] for each in cpu.usable_sets())
        return str(ready["instruction_set"]) if whole and known else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def key() -> str:
    """A digest of everything that compiled code depends on."""
    sources = hashlib.sha256()
    package = Path(__file__).parents[1]
    for name in COMPILED:
        sources.update((package / name).read_bytes())
    parts = [
        llvm.get_host_cpu_name(),
        llvm.get_host_cpu_features().flatten(),
        os.environ.get(cpu.LANES_VARIABLE, ""),
        numba.__version__,
        llvmlite.__version__,
        sysconfig.get_platform(),
        sys.version,
        str(package),
        sources.hexdigest(),
    ]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


@contextmanager
def lock(path: Path, wait: bool = True) -> Iterator[None]:
    """Hold an exclusive file lock; wait for it, or raise `BlockingIOError`."""
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield


@contextmanager
def numba_cache(folder: Path | None) -> Iterator[None]:
    """Set numba's cache folder for functions declared within the context."""
    config: Any = numba.config
    before = config.CACHE_DIR
    config.CACHE_DIR = str(folder or before)
    try:
        yield
    finally:
        config.CACHE_DIR = before


def remove_others(root: Path, own: Path) -> None:
    """Remove the least recently used folders, except those that are being compiled."""
    others = [path for path in root.iterdir() if path.is_dir() and path != own]
    for path in sorted(others, key=lambda path: -path.stat().st_mtime)[KEPT:]:
        with suppress(OSError), lock(path.with_name(f"{path.name}.lock"), wait=False):
            shutil.rmtree(path)
