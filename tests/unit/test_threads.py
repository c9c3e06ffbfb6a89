"""Compute threads."""

from __future__ import annotations

import os

import pytest

from lamina.base.threads import SPINS, limit_spinning


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({}, str(SPINS)),
        ({"GOMP_SPINCOUNT": "7"}, "7"),
        ({"OMP_WAIT_POLICY": "active"}, None),
    ],
    ids=["default", "own count", "own policy"],
)
def test_spinning_is_limited_unless_the_user_decides(
    given: dict[str, str], wanted: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(os, "environ", dict(os.environ))
    limit_spinning()
    assert os.environ.get("GOMP_SPINCOUNT") == wanted
