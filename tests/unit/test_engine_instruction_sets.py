"""Instruction sets that this machine may lack: compiled without being run, or run with an emulation."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="compiles for x86")
COMMON = "+avx,+avx2,+fma"
WIDE = f"{COMMON},+avx512f,+avx512bw,+avx512dq,+avx512vl,+avx512cd"

COMPILE = """
import sys
from numba import types
from lamina.base import cpu
chosen = next(each for each in cpu.INSTRUCTION_SETS if each.name == sys.argv[1])
cpu.usable_sets = lambda: [chosen]
from lamina.engine import int8, products
int8.product_int8.compile((types.int64,) * 14)
products.product.compile((types.int64,) * 10)
print(*int8.product_int8.inspect_asm().values(), *products.product.inspect_asm().values())
"""

# Emulation of VNNI's instruction: u8·s8, four products summed in each lane.
STAND_IN = """
import numba
import numpy as np
from llvmlite import ir
from lamina.base import cpu
cpu.usable_sets = lambda: [cpu.InstructionSet("stand-in", 8, 16, True)]
from lamina.engine import int8
from lamina.engine.vectors import I32, INTEGERS, LANES, shuffle

def dot(builder, total, inputs, weights):
    wide = ir.VectorType(I32, 4 * LANES)
    unsigned = builder.zext(builder.bitcast(inputs, weights.type), wide)
    products = builder.mul(unsigned, builder.sext(weights, wide))
    for first in range(4):
        total = builder.add(total, shuffle(builder, products, products, range(first, 4 * LANES, 4)))
    return total

int8.dot = dot

@numba.njit
def product(*arguments):
    int8.product_int8(*arguments)

draw = np.random.default_rng(0)
for rows, inputs, outputs in ((1, 16, 16), (5, 40, 48), (13, 304, 32)):
    x = draw.standard_normal((rows, inputs)).astype(np.float32)
    weight = draw.standard_normal((outputs, inputs)).astype(np.float32)
    packed = int8.pack_int8(weight)
    bias, out = draw.standard_normal(outputs).astype(np.float32), np.zeros((rows, outputs), np.float32)
    quantised, scales = np.zeros(rows * inputs, np.uint8), np.zeros(rows, np.float32)
    panels, groups = packed.weights.shape[:2]
    addresses = [each.ctypes.data for each in (bias, packed.scales, packed.starts)]
    product(
        x.ctypes.data, 4 * inputs, rows, packed.weights.ctypes.data, 4 * groups, panels, out.ctypes.data, 4 * outputs,
        *addresses, 0, quantised.ctypes.data, scales.ctypes.data,
    )
    scale, column = np.abs(x).max(axis=1, keepdims=True) / 127, np.abs(weight).max(axis=1) / 127
    whole = np.floor(x / scale + 0.5) @ np.rint(weight / column[:, None]).T
    np.testing.assert_allclose(out, whole * scale * column + bias, rtol=1e-5, atol=1e-4)
"""


def run(code: str, *arguments: str, **environment: str) -> str:
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@x86
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "cpu", "features", "present", "absent"),
    [
        ("AVX-512 VNNI", "cascadelake", f"{WIDE},+avx512vnni", ["vpdpbusd", "%zmm", "vfmadd"], ["vpmaddwd"]),
        ("AVX-512", "skylake-avx512", WIDE, ["vpmaddwd", "%zmm", "vfmadd"], ["vpdpbusd", "vpmulld"]),
        ("AVX2 with AVX-512 VNNI", "cascadelake", f"{WIDE},+avx512vnni", ["vpdpbusd", "%ymm"], ["%zmm"]),
        ("AVX2 VNNI", "alderlake", f"{COMMON},+avxvnni", ["vpdpbusd", "%ymm", "vfmadd"], ["%zmm", "vpmaddwd"]),
        ("AVX2", "haswell", COMMON, ["vpmaddwd", "%ymm", "vfmadd"], ["%zmm", "vpdpbusd", "vpmulld"]),
        ("128-bit vectors", "nehalem", "+sse4.2", ["pmaddwd", "%xmm"], ["%ymm"]),
    ],
)
def test_a_set_is_compiled_to_its_instructions(
    name: str, cpu: str, features: str, present: list[str], absent: list[str]
) -> None:
    code = run(COMPILE, name, NUMBA_CPU_NAME=cpu, NUMBA_CPU_FEATURES=features)
    assert [each for each in present if each not in code] == []
    assert [each for each in absent if each in code] == []


@pytest.mark.slow
def test_unsigned_inputs_are_shifted_back() -> None:
    run(STAND_IN)
