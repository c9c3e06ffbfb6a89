"""Sizes tuned by measurement; they affect speed only."""

from __future__ import annotations

from lamina.engine.vectors import INSTRUCTION_SET

TILE_VECTORS = 2  # columns of a register tile, in vectors
TILE_ROWS = 12 if INSTRUCTION_SET.registers == 32 else 6  # TILE_ROWS·TILE_VECTORS sums stay in registers
UNROLL = 4  # loop unrolling, in inputs
INT8_UNROLL = 2 if INSTRUCTION_SET.vnni else 1  # the same in 8 bits, in groups
DEPTH_BLOCK = 256  # inputs of a panel that stay in the L1 cache for all rows
ENCODER_ROWS = 256  # maximum source tokens per run of the encoder
