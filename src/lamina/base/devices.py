"""Choice of the device a command runs on, and of the precision of its matrix products."""

from __future__ import annotations

import os
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from lamina.base.onednn import limit_instructions
from lamina.errors import UsageError

if TYPE_CHECKING:
    import torch

DRIVERS = ("nvidia*", "nvhost*", "nvgpu*", "kfd", "dxg")  # device files of GPUs that torch may support, in /dev


def uses_cpu(name: str) -> bool:
    """Whether this name resolves to a CPU; imports torch only if there may be a GPU."""
    if name == "cpu":
        return True
    if name == "auto" and "torch" not in sys.modules and not any(any(Path("/dev").glob(each)) for each in DRIVERS):
        return True
    return choose_device(name).type == "cpu"


def choose_device(name: str) -> torch.device:
    """Resolve a device name: `auto` is a GPU if there is one; under `torchrun` each local process has its own."""
    import torch

    limit_instructions()
    available = torch.cuda.is_available()
    if name == "cuda" and not available:
        raise UsageError("Device `cuda`: torch found no CUDA device; use `cpu`, or run `lamina doctor`.")
    if name == "cuda" or (name == "auto" and available):
        rank = int(os.environ.get("LOCAL_RANK", "0"))
        if rank >= (count := torch.cuda.device_count()):
            raise UsageError(
                f"Each process on this machine needs its own GPU, but torch found only {count}; use at most "
                f"--nproc-per-node {count}."
            )
        return torch.device("cuda", rank)
    return torch.device("cpu")


Precision = Literal["fp32", "bf16", "fp16"]
TYPES: dict[Precision, str | None] = {"fp32": None, "bf16": "bfloat16", "fp16": "float16"}  # by torch's names


def choose_precision(name: Precision | Literal["auto"], device: torch.device) -> Precision:
    """Resolve a precision: `auto` is bf16 on GPUs with native support (from Ampere on), else fp16; fp32 on CPUs."""
    if name != "auto":
        return name
    if device.type != "cuda":
        return "fp32"
    import torch

    return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp16"


def autocast(device: torch.device, precision: Precision) -> AbstractContextManager[object]:
    """A context in which matrix products are computed in this precision."""
    import torch

    name = TYPES[precision]
    return nullcontext() if name is None else torch.autocast(device.type, getattr(torch, name))
