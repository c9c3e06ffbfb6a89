"""Sizes that were chosen by measuring; only speed depends on them, results do not."""

from __future__ import annotations

from lamina.engine.vectors import INSTRUCTION_SET

TILE_VECTORS = 2  # columns of a tile, in vectors
TILE_ROWS = 12 if INSTRUCTION_SET.registers == 32 else 6  # TILE_ROWS·TILE_VECTORS sums stay in registers
UNROLL = 4  # multiply-adds of each sum between two tests for the end
INT8_UNROLL = 2 if INSTRUCTION_SET.vnni else 1  # the same in 8 bits
DEPTH_BLOCK = 256  # inputs of a panel that stay in the first-level cache while all rows pass by
ENCODER_ROWS = 256  # source tokens that pass through the encoder together
