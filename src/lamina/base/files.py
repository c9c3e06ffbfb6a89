"""Atomic writing of files and folders: complete under their final name, or absent.

Content is written under a temporary name beside the final one, flushed to disk, and then renamed. A process that is
killed at any moment leaves the earlier content untouched.
"""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

from lamina.errors import DataError, UsageError

StrPath = str | os.PathLike[str]  # path arguments of the public API
PARTIAL = ".partial"  # suffix of files and folders that are being written
AT_FDCWD, RENAME_EXCHANGE = -100, 2  # constants of Linux's renameat2


def partial_name(path: Path) -> Path:
    """The temporary name of a file or folder."""
    return path.with_name(path.name + PARTIAL)


@contextmanager
def errors_named(path: Path) -> Iterator[None]:
    """Add the path to errors of the system that name none, as those of a full disk."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


@contextmanager
def atomic_file(path: Path) -> Iterator[IO[bytes]]:
    """Yield a stream whose content replaces the file when the context ends without an error."""
    partial = partial_name(path)
    try:
        with errors_named(path), partial.open("wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(path)
        flush(path.parent)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Yield an empty folder that replaces the one at `path` when the context ends without an error."""
    partial = partial_name(path)
    remove(partial)
    partial.mkdir(parents=True)
    try:
        yield partial
        publish_folder(path)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def publish_folder(path: Path) -> None:
    """Flush a folder that was written under its temporary name, and rename it to `path`."""
    partial = partial_name(path)
    for each in [*partial.rglob("*"), partial]:
        flush(each)
    replace_folder(partial, path)
    flush(path.parent)


def write_file(path: Path, content: str | bytes) -> None:
    """Write a small file; text as UTF-8."""
    with atomic_file(path) as stream:
        stream.write(content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content)


def replace_folder(new: Path, path: Path) -> None:
    """Rename a folder over another; `path` exists at every moment if the kernel can exchange names."""
    if not path.exists():
        new.rename(path)
        return
    if not exchange(new, path):
        backup = path.with_name(path.name + ".before")
        remove(backup)
        path.rename(backup)
        new.rename(path)
        new = backup
    remove(new)


def exchange(one: Path, other: Path) -> bool:
    """Swap the names of two folders atomically; False if the system cannot."""
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "renameat2"):
        return False
    return libc.renameat2(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE) == 0


def flush(path: Path) -> None:
    """Flush a file's content, or a folder's entries, to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove(path: Path) -> None:
    """Remove a file or a folder with everything in it, if it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def locked(path: Path, refusal: str) -> Iterator[None]:
    """Hold a lock file within the context; raise `UsageError(refusal)` if another process holds it.

    The file may be removed within the context, but not after it, when it may be another process's.
    """
    with ExitStack() as opened:
        while True:
            try:
                handle = opened.enter_context(path.open("w"))
            except OSError as error:
                raise DataError(f"{path.parent}: cannot be written ({error.strerror}).") from error
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise UsageError(refusal) from error
            with suppress(FileNotFoundError):
                if os.path.samefile(path, handle.fileno()):
                    break  # otherwise the previous holder has removed it in the meantime
        yield


def require_absent(path: Path) -> None:
    """Raise if `path` exists, for commands that never replace a folder."""
    if path.exists() or path.is_symlink():
        raise UsageError(f"{path}: already exists; choose another path, or remove it.")


def user_cache(name: str) -> Path | None:
    """A folder in the user's cache, else a private temporary one; None if neither is writable."""
    home = os.environ.get("XDG_CACHE_HOME")
    candidates = [Path(tempfile.gettempdir()) / f"lamina-{os.getuid()}" / name]
    with suppress(RuntimeError):  # no home directory
        candidates.insert(0, (Path(home) if home else Path.home() / ".cache") / "lamina" / name)
    for folder in candidates:
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            if folder.stat().st_uid == os.getuid() and os.access(folder, os.W_OK):
                return folder
    return None


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
