"""Atomic writing of files and folders."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import IO

import pytest

from lamina.base.files import atomic_file, atomic_folder, exchange, locked, partial_name, replace_folder, write_file
from lamina.errors import UsageError


def test_a_file_is_replaced_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_file(path, "before")
    with atomic_file(path) as stream:
        stream.write(b"after")
        assert path.read_text() == "before"
    assert path.read_text() == "after"
    assert list(tmp_path.iterdir()) == [path]


def test_an_error_keeps_the_previous_file(tmp_path: Path) -> None:
    write_file(tmp_path / "a", "before")
    with pytest.raises(ZeroDivisionError), atomic_file(tmp_path / "a") as stream:
        stream.write(bytes([1 // 0]))
    with pytest.raises(ZeroDivisionError), atomic_folder(tmp_path / "b") as folder:
        (folder / "x").write_bytes(bytes([1 // 0]))
    assert (tmp_path / "a").read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize("exchanges", [True, False])
def test_a_folder_is_replaced_atomically(exchanges: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not exchanges:
        monkeypatch.setattr("lamina.base.files.exchange", lambda one, other: False)
    for content in ("one", "two"):
        with atomic_folder(tmp_path / "model") as folder:
            (folder / "weights").write_text(content)
    assert (tmp_path / "model" / "weights").read_text() == "two"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_names_are_exchanged_in_one_operation(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    if exchange(tmp_path / "a", tmp_path / "b"):
        assert (tmp_path / "a" / "file").read_text() == "b"
    else:
        pytest.skip("this file system cannot exchange names")


def test_a_leftover_partial_folder_is_replaced(tmp_path: Path) -> None:
    partial_name(tmp_path / "model").mkdir()
    (partial_name(tmp_path / "model") / "old").touch()
    with atomic_folder(tmp_path / "model") as folder:
        (folder / "new").touch()
    assert [path.name for path in (tmp_path / "model").iterdir()] == ["new"]


def test_replacing_a_missing_folder(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    replace_folder(tmp_path / "new", tmp_path / "model")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_lock_is_exclusive(tmp_path: Path) -> None:
    with locked(tmp_path / "lock", "busy"), pytest.raises(UsageError, match="busy"), locked(tmp_path / "lock", "busy"):
        pass
    with locked(tmp_path / "lock", "busy"):
        pass


def test_a_lock_file_that_its_holder_removes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, flock, removals = tmp_path / "lock", fcntl.flock, iter([True, False])

    def remove_first(handle: IO[str], operation: int) -> None:
        if next(removals):
            path.unlink()
        flock(handle, operation)

    monkeypatch.setattr(fcntl, "flock", remove_first)
    with locked(path, "busy"):
        assert path.exists()
    monkeypatch.undo()
    with locked(path, "busy"), pytest.raises(UsageError, match="busy"), locked(path, "busy"):
        pass


def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    write_file(path, f"a name: {path.name}")
    assert path.read_bytes() == b"a name: \xff"
