from __future__ import annotations

import pytest
import torch
from torch import nn

from lamina.model.layers.attention import Attention, mask_keys


@pytest.fixture
def attention() -> Attention:
    torch.manual_seed(1)
    module = Attention(12, 3, dropout=0.0)
    nn.init.normal_(module.qkv.bias)
    return module


def test_equals_torch_multi_head_attention(attention: Attention) -> None:
    theirs = nn.MultiheadAttention(12, 3, batch_first=True)
    theirs.load_state_dict(
        {
            "in_proj_weight": attention.qkv.weight,
            "in_proj_bias": attention.qkv.bias,
            "out_proj.weight": attention.out.weight,
            "out_proj.bias": attention.out.bias,
        }
    )
    x_BTD, memory_BMD = torch.randn(2, 4, 12), torch.randn(2, 6, 12)
    valid_BM = torch.tensor([[True] * 6, [True] * 3 + [False] * 3])
    found = attention.read(x_BTD, attention.project_kv(memory_BMD), mask_keys(valid_BM))
    expected, _ = theirs(x_BTD, memory_BMD, memory_BMD, key_padding_mask=~valid_BM)
    torch.testing.assert_close(found, expected)


def test_explicit_weights_equal_the_fused_path(attention: Attention) -> None:
    x_BTD, memory_BMD = torch.randn(2, 4, 12), torch.randn(2, 6, 12)
    valid_BM = torch.tensor([[True] * 6, [False] * 2 + [True] * 4])
    memory, query_BHTK = attention.project_kv(memory_BMD), attention.query(x_BTD)
    weights_BHTM = attention.weights(query_BHTK, memory.keys_BHMK, mask_keys(valid_BM))
    torch.testing.assert_close(weights_BHTM.sum(dim=-1), torch.ones(2, 3, 4))
    assert (weights_BHTM[1, :, :, :2] == 0).all()
    explicit_BTD = (weights_BHTM @ memory.values_BHMK).transpose(1, 2).flatten(2)
    torch.testing.assert_close(explicit_BTD, attention.attend(query_BHTK, memory, mask_keys(valid_BM)))


def test_dropout_acts_in_training_only() -> None:
    attention = Attention(12, 3, dropout=0.5)
    x_BTD, mask = torch.randn(2, 5, 12), torch.zeros(2, 1, 1, 5)
    assert not torch.equal(attention(x_BTD, mask), attention(x_BTD, mask))
    attention.eval()
    assert torch.equal(attention(x_BTD, mask), attention(x_BTD, mask))
