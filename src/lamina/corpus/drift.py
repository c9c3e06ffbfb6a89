"""Find where two files stop being parallel."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def first_drift(source_lengths: Sequence[int], target_lengths: Sequence[int]) -> int:
    """The line, from 0, at which one file most likely lost lines.

    Translations have similar lengths. If the longer file has k extra lines at line i, then pairing the lines before i
    one to one, and those after it with an offset of k, minimises the total difference in log length.
    """
    short, long = sorted((_log(source_lengths), _log(target_lengths)), key=len)
    extra = len(long) - len(short)
    before = np.concatenate([[0.0], np.cumsum(np.abs(short - long[: len(short)]))])
    after = np.concatenate([np.cumsum(np.abs(short - long[extra:])[::-1])[::-1], [0.0]])
    return int(np.argmin(before + after))


def _log(lengths: Sequence[int]) -> NDArray[np.float64]:
    return np.log1p(np.asarray(lengths, dtype=np.float64))
