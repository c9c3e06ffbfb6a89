"""A cache of lowered models on disk, so that translation starts without torch.

An entry holds a model's program and packed weights. Its name is a digest of the model folders, the precision, the
instruction set, torch's version and the sources of engine and model; its first line is a digest of the rest.
If an entry is damaged or does not match, the model is lowered again.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from pydantic import TypeAdapter, ValidationError

from lamina.base import cpu
from lamina.base.files import PARTIAL, atomic_file, user_cache
from lamina.engine.compilation import lock, ready_folder

if TYPE_CHECKING:
    from lamina.engine.engine import Engine

FOLDER = "programs"  # in the user's cache
SUFFIX = ".program"
LARGEST, MOST_ENTRIES = 2**31, 100  # limits: bytes of all entries, and their number
HASHED = ("engine", "model", "store", "text")  # packages that determine a lowered model
DIGEST = 64  # hexadecimal digits of SHA-256


def entry_path(identities: Sequence[str], int8: bool) -> Path | None:
    """The path of the entry for these model folders; None if there is no cache."""
    folder = user_cache(FOLDER)
    if folder is None:
        return None
    ready_folder()  # chooses the instruction set
    parts = [*identities, "int8" if int8 else "float32", cpu.chosen_set().name, version("torch"), source_digest()]
    return folder / f"{hashlib.sha256(chr(10).join(parts).encode()).hexdigest()[:32]}{SUFFIX}"


@cache
def source_digest() -> str:
    """A digest of the sources that determine and execute an entry."""
    package, digest = Path(__file__).parents[1], hashlib.sha256()
    for path in sorted(path for name in HASHED for path in (package / name).rglob("*.py")):
        digest.update(f"{path.relative_to(package)}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def read_entry(path: Path) -> tuple[Engine, list[str]] | None:
    """Read an entry: the engine and the notes stored with it; None if it is missing or damaged."""
    from lamina.engine.engine import Engine
    from lamina.engine.program import LoweredModel
    from lamina.engine.workspace import allocate

    try:
        with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
            with memoryview(content) as view:
                if bytes(view[:DIGEST]) != hashlib.sha256(view[DIGEST:]).hexdigest().encode():
                    return None
            _, name, notes, lowered_json = (content.readline() for _ in range(4))
            lowered = TypeAdapter(LoweredModel).validate_json(lowered_json)
            if name.decode().strip() != path.name or len(content) - content.tell() != 4 * lowered.program.size:
                return None
            weights = allocate(lowered.program.size)  # a copy in huge pages, independent of the file
            weights[:] = np.frombuffer(content, np.float32, offset=content.tell())
            messages = [str(note) for note in json.loads(notes)]
    except (OSError, ValueError, ValidationError):  # missing, empty or invalid
        return None
    with suppress(OSError):
        os.utime(path)  # marks the entry as recently used
    return Engine(lowered, weights), messages


def write_entry(path: Path, engine: Engine, notes: Sequence[str]) -> None:
    """Store an engine; if it is too large or cannot be written, the model is lowered again next time."""
    from lamina.engine.program import LoweredModel

    lines = [path.name.encode(), json.dumps(list(notes)).encode(), TypeAdapter(LoweredModel).dump_json(engine.lowered)]
    header = b"\n" + b"\n".join(lines) + b"\n"
    weights = engine.weights.view(np.uint8).data
    if DIGEST + len(header) + len(weights) > LARGEST:
        return
    digest = hashlib.sha256(header)
    digest.update(weights)
    with suppress(OSError), lock(path.with_name("lock")):
        remove_oldest(path.parent, LARGEST - len(header) - len(weights) - DIGEST)
        with atomic_file(path) as stream:
            stream.write(digest.hexdigest().encode() + header)
            stream.write(weights)


def remove_oldest(folder: Path, limit: int) -> None:
    """Remove the least recently used entries beyond `limit` bytes, and partial files of killed processes."""
    used = 0
    for number, path in enumerate(entries(folder)):
        used += path.stat().st_size
        if used > limit or number >= MOST_ENTRIES - 1:
            path.unlink(missing_ok=True)
    for path in folder.glob(f"*{PARTIAL}"):
        path.unlink(missing_ok=True)


def entries(folder: Path) -> Iterator[Path]:
    """All entries, the most recently used first."""
    yield from sorted(folder.glob(f"*{SUFFIX}"), key=lambda path: -path.stat().st_mtime)
