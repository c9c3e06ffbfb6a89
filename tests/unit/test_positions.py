from __future__ import annotations

import math

import pytest
import torch

from lamina.model.layers.positions import Positions, count_positions, sinusoids


def test_formula() -> None:
    table = sinusoids(9, 8)
    for position in range(9):
        for i in range(4):
            angle = position * 10000 ** (-i / 3)
            assert table[position, i] == pytest.approx(math.sin(angle), abs=1e-5)
            assert table[position, 4 + i] == pytest.approx(math.cos(angle), abs=1e-5)


def test_positions_count_real_tokens_on_either_side() -> None:
    valid_BS = torch.tensor([[False, True, True, True], [True, True, False, False]])
    assert count_positions(valid_BS)[0, 1:].tolist() == [0, 1, 2]
    assert count_positions(valid_BS)[1, :2].tolist() == [0, 1]


def test_table_grows_with_the_longest_sentence_and_keeps_its_values() -> None:
    positions = Positions(8, first=2)
    short = positions(torch.arange(5), 5)
    long = positions(torch.arange(3000), 3000)
    assert torch.equal(short, long[:5])
    torch.testing.assert_close(long, sinusoids(3002, 8)[2:])
    assert not positions.state_dict()
