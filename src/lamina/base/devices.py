"""Which device a command runs on."""

from __future__ import annotations

import os

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
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    return torch.device("cpu")
