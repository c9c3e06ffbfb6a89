"""Choice of the SIMD instruction set that the engine uses on this machine.

The choice follows the CPU features that LLVM reports, and is confirmed by execution: `compilation` runs a self-test in
a child process and falls back to the next set if that child crashes.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import llvmlite.binding as llvm

from lamina.errors import UsageError

LANES_VARIABLE, CHOICE_VARIABLE = "LAMINA_LANES", "LAMINA_INSTRUCTION_SET"


@dataclass(frozen=True)
class InstructionSet:
    """A SIMD instruction set: its vector width, registers and 8-bit dot products."""

    name: str
    lanes: int  # 32-bit values per vector
    registers: int  # vector registers of the CPU
    vnni: bool = False  # vpdpbusd: four 8-bit products per lane in one instruction
    needs: tuple[str, ...] = ()  # CPU features, by LLVM's names


INSTRUCTION_SETS = (
    InstructionSet("AVX-512 VNNI", 16, 32, True, ("avx512f", "avx512bw", "avx512vnni")),
    InstructionSet("AVX-512", 16, 32, False, ("avx512f", "avx512bw")),
    InstructionSet("AVX2 with AVX-512 VNNI", 8, 16, True, ("avx2", "fma", "avx512vnni", "avx512vl")),
    InstructionSet("AVX2 VNNI", 8, 16, True, ("avx2", "fma", "avxvnni")),
    InstructionSet("AVX2", 8, 16, False, ("avx2", "fma")),
    InstructionSet("NEON", 4, 32, False, ("neon",)),
    InstructionSet("128-bit vectors", 4, 16),  # LLVM lowers these on every CPU
)


def usable_sets() -> list[InstructionSet]:
    """The sets that this CPU supports, best first; `LAMINA_LANES` excludes wider ones."""
    features = llvm.get_host_cpu_features()
    max_lanes = os.environ.get(LANES_VARIABLE, "16")
    if max_lanes not in ("4", "8", "16"):
        raise UsageError(f"{LANES_VARIABLE} must be 4, 8 or 16, but is `{max_lanes}` instead.")
    return [
        each
        for each in INSTRUCTION_SETS
        if each.lanes <= int(max_lanes) and all(features.get(feature) for feature in each.needs)
    ]


_chosen: list[str] = []


def choose(name: str) -> None:
    """Use this set from now on; `vectors` must not have been imported with another one."""
    _chosen[:] = [name]


def chosen_set() -> InstructionSet:
    """The set to compile for: the one that passed the self-test, else the best that this CPU supports."""
    name = _chosen[0] if _chosen else os.environ.get(CHOICE_VARIABLE)
    return next((each for each in usable_sets() if each.name == name), usable_sets()[0])
