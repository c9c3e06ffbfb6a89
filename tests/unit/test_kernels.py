"""The compiled loops of decoding compute what torch computes."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from lamina.search import kernels

SOURCES, BEAMS, HEADS = 3, 2, 2


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def test_powers_of_e_are_exact_to_the_last_digits() -> None:
    x = np.linspace(-87, 0, 10_001, dtype=np.float32)
    found = np.array([kernels.power_of_e(value) for value in x])
    expected = np.exp(x.astype(np.float64))
    assert np.abs(found / expected - 1).max() < 1e-5  # of x itself, 32 bits leave 4e-6 at -87
    assert kernels.power_of_e(np.float32(-1e9)) < 1e-37


@pytest.mark.parametrize("shift", [-300.0, 0.0, 300.0])
def test_log_sum_exp_of_large_and_small_scores(shift: float) -> None:
    scores = 5 * draw(4, 1003) + shift
    found = torch.from_numpy(kernels.log_sum_exp(scores.numpy()))
    torch.testing.assert_close(found, scores.double().logsumexp(dim=1, keepdim=True).float(), rtol=0, atol=1e-4)


def test_a_score_of_minus_infinity_counts_nothing_and_one_that_is_no_number_is_seen() -> None:
    scores = draw(2, 100)
    scores[0, 10:] = -math.inf
    scores[1, 50] = math.nan
    found = kernels.log_sum_exp(scores.numpy())
    assert found[0, 0] == pytest.approx(float(scores[0, :10].logsumexp(dim=0)), abs=1e-5)
    assert math.isnan(found[1, 0])


def test_of_equal_sums_the_first_is_the_better_and_missing_ones_are_impossible() -> None:
    scores = torch.full((1, 2, 3), -math.inf)
    scores[0, 1, 2] = scores[0, 1, 0] = scores[0, 0, 1] = 1.0
    sums, rows, tokens = kernels.best_sums(torch.zeros(1, 2).numpy(), scores.numpy(), 4)
    assert list(zip(rows[0, :3].tolist(), tokens[0, :3].tolist(), strict=True)) == [(0, 1), (1, 0), (1, 2)]
    assert sums[0].tolist() == [1.0, 1.0, 1.0, -math.inf]


@pytest.mark.parametrize("width", [1, 7, 64])
def test_a_product_of_few_rows(width: int) -> None:
    x, weight = draw(3, width), draw(11, width, seed=1)
    found = torch.from_numpy(kernels.few_rows_product(x.numpy(), weight.numpy()))
    torch.testing.assert_close(found, F.linear(x, weight))


@pytest.mark.parametrize("outputs", [3, 8, 11])
def test_a_product_of_few_rows_in_eight_bits(outputs: int) -> None:
    x, scale = draw(3, 16), draw(outputs, seed=1).abs()
    weight = torch.randint(-127, 128, (outputs, 16), dtype=torch.int8)
    found = torch.from_numpy(kernels.few_rows_int8_product(x.numpy(), weight.numpy(), scale.numpy()))
    torch.testing.assert_close(found, F.linear(x, weight * scale[:, None]))


def test_a_sum_and_its_norm() -> None:
    x, result = draw(4, 24), draw(4, 24, seed=1)
    bias, gain, shift = draw(3, 24, seed=2)
    total = x + result + bias
    found = kernels.add(x.numpy(), result.clone().numpy(), bias.numpy())
    torch.testing.assert_close(torch.from_numpy(found), total)
    vectors = [each.numpy() for each in (bias, gain, shift)]
    found = kernels.add_and_norm(x.numpy(), result.numpy(), *vectors, np.float32(1e-5))
    torch.testing.assert_close(torch.from_numpy(found), F.layer_norm(total, (24,), gain, shift, 1e-5))


def test_relu_of_a_sum() -> None:
    x, bias = draw(4, 24), draw(24, seed=1)
    expected = F.relu(x + bias)
    torch.testing.assert_close(torch.from_numpy(kernels.relu(x.numpy(), bias.numpy())), expected)


@pytest.mark.parametrize("size", [5, 32])
def test_attention_to_a_memory_skips_its_padding(size: int) -> None:
    query, keys, values = (draw(SOURCES, HEADS, length, size, seed=length) for length in (BEAMS, 6, 6))
    valid = torch.ones(SOURCES, 6, dtype=torch.bool)
    valid[1, 4:], valid[2, :2] = False, False
    rows = query.transpose(1, 2).reshape(SOURCES * BEAMS, -1)
    bias = draw(HEADS * size, seed=1)
    found = kernels.attend_to_memory((rows - bias).numpy(), bias.numpy(), keys.numpy(), values.numpy(), valid.numpy())
    expected = F.scaled_dot_product_attention(query, keys, values, attn_mask=valid[:, None, None])
    torch.testing.assert_close(torch.from_numpy(found), expected.transpose(1, 2).reshape(rows.shape))


def test_keys_and_values_by_head() -> None:
    packed, bias = draw(SOURCES * 4, 2 * HEADS * 5), draw(2 * HEADS * 5, seed=1)
    found = kernels.split_heads(packed.numpy(), bias.numpy(), SOURCES, HEADS)
    expected = (packed + bias).view(SOURCES, 4, 2, HEADS, 5).permute(2, 0, 3, 1, 4)
    torch.testing.assert_close(torch.from_numpy(np.stack(found)), expected)


def test_attention_to_the_past_writes_and_sees_what_a_row_descends_from() -> None:
    size, position = 8, 2
    width, written = HEADS * size, (position + 1) * BEAMS
    packed, bias = draw(SOURCES * BEAMS, 3 * width), draw(3 * width, seed=2)
    keys, values = draw(2, SOURCES, HEADS, written + 3, size, seed=1)
    seen = torch.full((SOURCES, BEAMS, written), torch.finfo(torch.float32).min)
    seen[:, :, 0] = 0.0  # both descend from the first row of the first position
    seen[:, 0, 3] = seen[:, 1, 2] = 0.0  # then they have crossed
    seen[:, 0, 4] = seen[:, 1, 5] = 0.0  # and each sees itself
    split = (packed + bias).view(SOURCES, BEAMS, 3, HEADS, size).permute(2, 0, 3, 1, 4)
    found = kernels.attend_to_past(packed.numpy(), bias.numpy(), keys.numpy(), values.numpy(), seen.numpy())
    assert torch.equal(keys[:, :, 4:6], split[1])
    assert torch.equal(values[:, :, 4:6], split[2])
    expected = F.scaled_dot_product_attention(
        split[0], keys[:, :, :written], values[:, :, :written], attn_mask=(seen == 0)[:, None]
    )
    torch.testing.assert_close(torch.from_numpy(found), expected.transpose(1, 2).reshape(-1, width))
