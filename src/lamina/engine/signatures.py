"""Types of the compiled functions that Python calls; other types are an error, never another compilation."""

from __future__ import annotations

from typing import Any

from numba import types

from lamina.engine.machine import Rows
from lamina.engine.search import Found, Layout, Options, Sources

numba_types: Any = types  # its scalar types have no type hints
int32, int64, float32, float64 = (getattr(numba_types, name) for name in ("int32", "int64", "float32", "float64"))
LIST, TABLE, FLOATS = int64[::1], int64[:, ::1], float32[:, ::1]
ROWS = numba_types.NamedTuple((TABLE, int32[::1], FLOATS, LIST, int64), Rows)
SOURCES = numba_types.NamedTuple((LIST, LIST, TABLE, LIST), Sources)
LAYOUT = numba_types.NamedUniTuple(int64, 6, Layout)
OPTIONS = numba_types.NamedTuple((int64, int64, float64, int64, int64), Options)
FOUND = numba_types.NamedTuple((int32[:, :, ::1], TABLE, FLOATS, TABLE), Found)

EXECUTE = numba_types.void(TABLE, TABLE, int64, ROWS)
ENCODE = numba_types.void(int64, TABLE, TABLE, LIST, SOURCES, ROWS, int64)
DECODE = int64(int64, TABLE, TABLE, SOURCES, LAYOUT, OPTIONS, ROWS, FOUND)
