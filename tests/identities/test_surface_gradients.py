"""SurfaceFusion trains the embeddings through the surface, and nothing through the alignment."""

from __future__ import annotations

import pytest
import torch

from lamina.model.seq2seq import Seq2Seq
from support import COVERING, Combination, build_combination, make_batch, small


def source_side_gradients(model: Seq2Seq) -> dict[str, torch.Tensor | None]:
    """Gradients through the surface reader's contribution, by parameter."""
    batch = make_batch()
    memory = model.project_source(batch.source_BS)
    sides = model.head.sides(model.decode(batch.prefix_BT, memory), memory.head)
    names, parameters = zip(*model.named_parameters(), strict=True)
    total = sides.source_BTD.square().sum()
    return dict(zip(names, torch.autograd.grad(total, parameters, allow_unused=True), strict=True))


@pytest.mark.parametrize("combination", sorted(each for each in COVERING if each.head == "surface"), ids=str)
def test_alignment_trains_no_layer(combination: Combination) -> None:
    gradients = source_side_gradients(build_combination(combination))
    touched = {name for name, gradient in gradients.items() if gradient is not None and gradient.abs().sum() > 0}
    assert not {name for name in touched if name.startswith(("encoder.", "decoder.", "bridge."))}
    assert "source_embedding.tokens.weight" in touched
    assert "head.reader.attention.qkv.weight" in touched
    assert "head.feed_forward.up_proj.weight" in touched


@pytest.mark.parametrize("reader", ["mean", "max"])
def test_pooled_readers_train_the_embeddings(reader: str) -> None:
    gradients = source_side_gradients(small(head={"type": "surface", "reader": reader}))
    assert gradients["source_embedding.tokens.weight"].abs().sum() > 0
    assert all(gradients[name] is None for name in gradients if name.startswith(("encoder.", "decoder.")))


def test_surface_shares_the_dropout_mask_of_the_encoder_input() -> None:
    model = small(dropout=0.5).train()
    enc = model.source_embedding(make_batch().source_BS, make_batch().source_BS != 1)
    dropped = enc.embedded_BSD == 0
    real = (make_batch().source_BS != 1)[..., None].expand_as(dropped)
    assert 0.3 < dropped[real].float().mean() < 0.7
    assert torch.equal(enc.surface_BSD[real] == 0, dropped[real])


@pytest.mark.parametrize("reader", ["mean", "max"])
def test_pooling_takes_every_real_token(reader: str) -> None:
    model, source_BS = small(head={"type": "surface", "reader": reader}), make_batch().source_BS
    enc = model.encode(source_BS)
    pooled_BD = model.head.project_source(enc).pooled_BD
    for row, tokens in enumerate(source_BS):
        surface = enc.surface_BSD[row, : int((tokens != 1).sum())]
        expected = surface.mean(dim=0) if reader == "mean" else surface.amax(dim=0)
        torch.testing.assert_close(pooled_BD[row], expected)


def test_the_query_comes_from_the_chosen_layer() -> None:
    batch = make_batch()
    lower, upper = (small(head={"type": "surface", "layer": layer}) for layer in (1, 2))
    default = small(head={"type": "surface"})
    with torch.no_grad():
        results = [model.log_probs(batch.source_BS, batch.prefix_BT) for model in (lower, upper, default)]
    torch.testing.assert_close(results[1], results[2])
    assert not torch.allclose(results[0], results[1])
