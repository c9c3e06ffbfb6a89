"""Memory that stays: large tensors are not given back to the system between steps.

glibc maps every large allocation anew and unmaps it when it is freed, so each step pays for fresh pages. Raising its
two thresholds keeps them with the process.
"""

from __future__ import annotations

import ctypes
import sys

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
LARGEST = 2**31 - 1


def keep_pages() -> None:
    """Ask glibc to keep freed memory; does nothing on other systems."""
    if sys.platform != "linux":
        return
    try:
        libc = ctypes.CDLL("libc.so.6")
    except OSError:  # another C library
        return
    libc.mallopt(M_MMAP_THRESHOLD, LARGEST)
    libc.mallopt(M_TRIM_THRESHOLD, LARGEST)
