"""Keeps lowered models on disk, so that translation starts without torch.

An entry holds a model's program and packed weights. Its name is a digest of the model folders, the precision, the
instruction set, torch's version and the sources of engine and model; its first line is a digest of all that follows.
An entry that is damaged or belongs to something else is not used, and the model is lowered again.
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

FOLDER = "programs"  # of the user's cache
SUFFIX = ".program"
LARGEST, MOST_ENTRIES = 2**31, 100  # bytes of all entries, and how many there are
HASHED = ("engine", "model", "store", "text")  # packages that decide what a lowered model is
DIGEST = 64  # hexadecimal digits of SHA-256


def entry_path(identities: Sequence[str], int8: bool) -> Path | None:
    """Where the entry of these model folders is, or would be; None if there is no place for it."""
    place = user_cache(FOLDER)
    if place is None:
        return None
    ready_folder()  # which chooses the instruction set
    parts = [*identities, "int8" if int8 else "float32", cpu.chosen_set().name, version("torch"), source_digest()]
    return place / f"{hashlib.sha256(chr(10).join(parts).encode()).hexdigest()[:32]}{SUFFIX}"


@cache
def source_digest() -> str:
    """Of everything that decides what is in an entry, and what executes it."""
    package, found = Path(__file__).parents[1], hashlib.sha256()
    for path in sorted(path for name in HASHED for path in (package / name).rglob("*.py")):
        found.update(f"{path.relative_to(package)}\0".encode() + path.read_bytes())
    return found.hexdigest()


def read_entry(path: Path) -> tuple[Engine, list[str]] | None:
    """The engine of an entry, and the notes that were made with it; None unless it is there and whole."""
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
            weights = allocate(lowered.program.size)  # a copy in large pages, whatever becomes of the file
            weights[:] = np.frombuffer(content, np.float32, offset=content.tell())
            said = [str(note) for note in json.loads(notes)]
    except (OSError, ValueError, ValidationError):  # not there, empty, not ours
        return None
    with suppress(OSError):
        os.utime(path)  # those that were not used for the longest time are removed first
    return Engine(lowered, weights), said


def write_entry(path: Path, engine: Engine, notes: Sequence[str]) -> None:
    """Keep an engine; where that is not possible (no room, another process writes), it is built again next time."""
    from lamina.engine.program import LoweredModel

    lines = [path.name.encode(), json.dumps(list(notes)).encode(), TypeAdapter(LoweredModel).dump_json(engine.lowered)]
    header = b"\n" + b"\n".join(lines) + b"\n"
    weights = engine.weights.view(np.uint8).data
    if DIGEST + len(header) + len(weights) > LARGEST:
        return
    found = hashlib.sha256(header)
    found.update(weights)
    with suppress(OSError), lock(path.with_name("lock")):
        remove_oldest(path.parent, LARGEST - len(header) - len(weights) - DIGEST)
        with atomic_file(path) as stream:
            stream.write(found.hexdigest().encode() + header)
            stream.write(weights)


def remove_oldest(place: Path, room: int) -> None:
    """Keep the entries that were used last, as far as they fit; also remove what a killed process has left."""
    used = 0
    for number, path in enumerate(entries(place)):
        used += path.stat().st_size
        if used > room or number >= MOST_ENTRIES - 1:
            path.unlink(missing_ok=True)
    for path in place.glob(f"*{PARTIAL}"):
        path.unlink(missing_ok=True)


def entries(place: Path) -> Iterator[Path]:
    """All entries, the last used first."""
    yield from sorted(place.glob(f"*{SUFFIX}"), key=lambda path: -path.stat().st_mtime)
