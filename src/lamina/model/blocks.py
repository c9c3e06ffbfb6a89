"""Encoder layers grouped into blocks, one for each decoder layer."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import TYPE_CHECKING

from lamina.errors import Problem

if TYPE_CHECKING:
    from lamina.model.config import ModelConfig


def split_evenly(layers: int, blocks: int) -> tuple[int, ...]:
    """Equal block sizes; `check_blocks` ensures that `layers` is a multiple of `blocks`."""
    return (layers // blocks,) * blocks


def block_ends(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """The index of every block's last layer, from 0."""
    return tuple(end - 1 for end in accumulate(sizes))


def check_blocks(socket: str, name: str, sizes: tuple[int, ...] | None, model: ModelConfig) -> Iterator[Problem]:
    """Check that there is one block per decoder layer, and that together they hold all encoder layers."""
    layers, blocks = model.encoder.layers, model.decoder.layers
    if sizes is None:
        if layers % blocks:
            yield Problem(
                "encoder.layers",
                f"must be a multiple of the decoder's {blocks} layers for {socket} `{name}`, but is {layers} "
                f"instead. Unequal blocks can be given as `{socket}.blocks`.",
            )
        return
    if len(sizes) != blocks:
        yield Problem(
            f"{socket}.blocks",
            f"must have one size per decoder layer ({blocks}), but has {len(sizes)} instead.",
        )
    if sum(sizes) != layers:
        yield Problem(
            f"{socket}.blocks",
            f"must add up to {layers}, the number of encoder layers, but adds up to {sum(sizes)} instead.",
        )
