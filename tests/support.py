"""Small models and batches, and every combination of sockets there is."""

from __future__ import annotations

from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from lamina.model.bridges import BRIDGES
from lamina.model.build import build
from lamina.model.config import ModelConfig
from lamina.model.encoders import ENCODERS
from lamina.model.heads import HEADS
from lamina.model.seq2seq import Seq2Seq
from lamina.systems import settings

VOCABULARY = 23
SHARED = Path(__file__).parents[2] / "shared"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="needs ../shared, which is not part of the repository")


class Combination(NamedTuple):
    encoder: str
    bridge: str
    head: str
    attention: str
    norm: str

    def __str__(self) -> str:
        return "-".join(self)

    def choices(self) -> dict[str, Any]:
        layers = 2 if self.bridge == "layerwise" else 4
        return {
            "d_model": 16,
            "ffn_size": 24,
            "heads": 2,
            "dropout": 0.0,
            "norm": self.norm,
            "encoder": {"type": self.encoder, "layers": layers},
            "bridge": {"type": self.bridge},
            "head": {"type": self.head},
            "decoder": {"layers": 2, "attention": self.attention},
        }

    def config(self) -> ModelConfig:
        chosen = settings(None, "tiny", self.choices())
        return ModelConfig.model_validate({**chosen, "source_vocab": VOCABULARY, "target_vocab": VOCABULARY})


ALL = [
    Combination(*names)
    for names in product(ENCODERS, BRIDGES, HEADS, ("self", "average", "merged", "mixed"), ("pre", "post"))
]
LEGAL = [combination for combination in ALL if not combination.config().problems()]
ILLEGAL = [combination for combination in ALL if combination.config().problems()]

every_combination = pytest.mark.parametrize("combination", LEGAL, ids=str)


def small(system: str | None = None, **own: Any) -> Seq2Seq:
    """A model of a few thousand weights, without dropout, in evaluation mode."""
    torch.manual_seed(1)
    chosen = {"d_model": 16, "ffn_size": 24, "heads": 2, "dropout": 0.0, **own}
    for stack in ("encoder", "decoder"):
        chosen[stack] = {"layers": 2, **chosen.get(stack, {})}
    return scramble(build(system, size="tiny", vocab_size=VOCABULARY, **chosen).eval())


def scramble(model: Seq2Seq) -> Seq2Seq:
    """Weights as after some training: no bias is 0, no norm 1, no mixing weight equal."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model


@cache
def build_combination(combination: Combination) -> Seq2Seq:
    torch.manual_seed(1)
    return scramble(build(size="tiny", vocab_size=VOCABULARY, **combination.choices()).eval())


class Batch(NamedTuple):
    source_BS: Tensor
    prefix_BT: Tensor
    target_BT: Tensor


def make_batch(source_lengths: tuple[int, ...] = (5, 2, 7), target_lengths: tuple[int, ...] = (4, 6, 1)) -> Batch:
    """Sources end with eos, prefixes start with the start token, both padded on the right."""
    generator = torch.Generator().manual_seed(7)

    def words(length: int) -> list[int]:
        return torch.randint(4, VOCABULARY, (length,), generator=generator).tolist()

    sources = [[*words(length - 1), 2] for length in source_lengths]
    targets = [[*words(length - 1), 2] for length in target_lengths]
    return Batch(pad(sources), pad([[0, *target[:-1]] for target in targets]), pad(targets))


def pad(rows: list[list[int]], left: bool = False, extra: int = 0) -> Tensor:
    width = max(len(row) for row in rows) + extra
    return torch.tensor([[1] * (width - len(row)) + row if left else row + [1] * (width - len(row)) for row in rows])


def rows_of(tokens: Tensor) -> list[list[int]]:
    return [row[row != 1].tolist() for row in tokens]
