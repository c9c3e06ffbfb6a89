"""Which device a command runs on, and what it computes products in."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from typing import Literal

import torch

from lamina.base.onednn import limit_instructions
from lamina.errors import UsageError


def choose_device(name: str) -> torch.device:
    """`auto` is a GPU if there is one; under `torchrun` each process of a machine has its own."""
    limit_instructions()
    available = torch.cuda.is_available()
    if name == "cuda" and not available:
        raise UsageError("--device cuda: torch finds no CUDA device here; use --device cpu, or see `lamina doctor`.")
    if name == "cuda" or (name == "auto" and available):
        place = int(os.environ.get("LOCAL_RANK", "0"))
        if place >= torch.cuda.device_count():
            raise UsageError(
                f"Process {place} of this machine needs a GPU of its own, but there are {torch.cuda.device_count()}; "
                "use a smaller --nproc-per-node."
            )
        return torch.device("cuda", place)
    return torch.device("cpu")


Precision = Literal["fp32", "bf16", "fp16"]
TYPES: dict[Precision, torch.dtype | None] = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}


def choose_precision(name: Precision | Literal["auto"], device: torch.device) -> Precision:
    """`auto` is 16 bits on a GPU: bf16 where it has the units for it (from Ampere on), else fp16."""
    if name != "auto":
        return name
    if device.type != "cuda":
        return "fp32"
    return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp16"


def autocast(device: torch.device, precision: Precision) -> AbstractContextManager[object]:
    """Within the context products are computed in this precision."""
    dtype = TYPES[precision]
    return nullcontext() if dtype is None else torch.autocast(device.type, dtype)
