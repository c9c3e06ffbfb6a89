"""Keep freed memory for reuse while the process is small, and return it when the process is large.

glibc maps every large allocation anew and unmaps it when it is freed, so each step pays for page faults. Raising its
two thresholds keeps the pages in the process. But then small allocations fragment the heap: the holes that large ones
leave are not reused, and a deep model would take twice the memory it needs. So above two gigabytes the heap is trimmed
whenever it has grown by half a gigabyte, which costs little compared with such a model's matrix products.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from functools import cache
from typing import Any

import torch
from torch import nn

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
LARGEST = 2**31 - 1
TRIM_ABOVE, TRIM_EVERY = 2 * 2**30, 2**29  # bytes
MADV_HUGEPAGE = 14  # constant of Linux's madvise
HUGE_PAGE, HUGE_REGION = 2 * 2**20, 2**30  # bytes


def tune_malloc() -> None:
    """Ask glibc to keep freed memory; does nothing on other systems."""
    libc = find_glibc()
    if libc is not None:
        libc.mallopt(M_MMAP_THRESHOLD, LARGEST)
        libc.mallopt(M_TRIM_THRESHOLD, LARGEST)
        use_huge_pages(libc)


@cache
def use_huge_pages(libc: Any) -> None:
    """Back the next gigabyte of the heap with huge pages, which cause fewer TLB misses when large matrices are read.

    The region is allocated, marked and freed untouched, so it takes no memory until it is used.
    """
    libc.malloc.restype = ctypes.c_void_p
    block = libc.malloc(ctypes.c_size_t(HUGE_REGION))
    if block:
        first = (block + HUGE_PAGE - 1) // HUGE_PAGE * HUGE_PAGE
        libc.madvise(ctypes.c_void_p(first), ctypes.c_size_t(block + HUGE_REGION - first), MADV_HUGEPAGE)
        libc.free(ctypes.c_void_p(block))


def trim_heap(model: nn.Module) -> None:
    """Trim the heap of a large process after every encoder and decoder layer, forward and backward."""
    if find_glibc() is None:
        return
    trimmer = _HeapTrimmer()
    for name, module in model.named_modules():
        if name.rpartition(".")[0] in ("encoder.layers", "decoder.layers"):
            module.register_forward_hook(trimmer.after_layer)


class _HeapTrimmer:
    """Trims when memory has grown by this much since the last time; returning pages that are reused is costly."""

    def __init__(self) -> None:
        self.trimmed_to = TRIM_ABOVE - TRIM_EVERY

    def after_layer(self, module: nn.Module, inputs: Any, output: torch.Tensor) -> None:
        self.trim()
        if output.requires_grad:
            output.register_hook(lambda _: self.trim())

    def trim(self) -> None:
        if resident() > self.trimmed_to + TRIM_EVERY:
            find_glibc().malloc_trim(0)
            self.trimmed_to = max(resident(), TRIM_ABOVE - TRIM_EVERY)


def resident() -> int:
    """Resident set size of this process in bytes."""
    with open("/proc/self/statm", "rb") as sizes:
        return int(sizes.read().split()[1]) * mmap.PAGESIZE


@cache
def find_glibc() -> Any:
    """The C library if it is glibc, else None."""
    if sys.platform != "linux":
        return None
    try:
        libc = ctypes.CDLL("libc.so.6")
    except OSError:  # another C library
        return None
    return libc if hasattr(libc, "malloc_trim") else None
