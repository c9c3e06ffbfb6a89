"""Which device a command runs on, and what it computes products in."""

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

DRIVERS = ("nvidia*", "nvhost*", "nvgpu*", "kfd", "dxg")  # of GPUs that torch may know, in /dev


def uses_cpu(name: str) -> bool:
    """Whether the device of this name is a CPU; torch is asked only if there may be a GPU."""
    if name == "cpu":
        return True
    if name == "auto" and "torch" not in sys.modules and not any(any(Path("/dev").glob(each)) for each in DRIVERS):
        return True
    return choose_device(name).type == "cpu"


def choose_device(name: str) -> torch.device:
    """`auto` is a GPU if there is one; under `torchrun` each process of a machine has its own."""
    import torch

    limit_instructions()
    available = torch.cuda.is_available()
    if name == "cuda" and not available:
        raise UsageError("--device cuda: torch found no CUDA device; use --device cpu, or run `lamina doctor`.")
    if name == "cuda" or (name == "auto" and available):
        place = int(os.environ.get("LOCAL_RANK", "0"))
        if place >= torch.cuda.device_count():
            raise UsageError(
                f"Process {place} on this machine needs its own GPU, but there are {torch.cuda.device_count()}; "
                "use a smaller --nproc-per-node."
            )
        return torch.device("cuda", place)
    return torch.device("cpu")


Precision = Literal["fp32", "bf16", "fp16"]
TYPES: dict[Precision, str | None] = {"fp32": None, "bf16": "bfloat16", "fp16": "float16"}  # by torch's names


def choose_precision(name: Precision | Literal["auto"], device: torch.device) -> Precision:
    """`auto` is 16 bits on a GPU: bf16 where it has the units for it (from Ampere on), else fp16."""
    if name != "auto":
        return name
    if device.type != "cuda":
        return "fp32"
    import torch

    return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp16"


def autocast(device: torch.device, precision: Precision) -> AbstractContextManager[object]:
    """Within the context products are computed in this precision."""
    import torch

    name = TYPES[precision]
    return nullcontext() if name is None else torch.autocast(device.type, getattr(torch, name))
