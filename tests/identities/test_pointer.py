"""The pointer-generator: the extremes of its gate, and a loss that matches its distribution."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from test_identities import assert_equal_models, copy_weights

from lamina.errors import ConfigurationError
from lamina.model.heads import cross_entropy
from lamina.model.heads.pointer import coverage_loss
from lamina.model.seq2seq import Seq2Seq
from lamina.recipe.loader import RecipeError, load_recipe
from lamina.systems.build import build
from support import VOCABULARY, make_batch, small


def with_gate(logit: float) -> Seq2Seq:
    model = small("pointer-generator")
    with torch.no_grad():
        model.head.gate.weight.zero_()
        model.head.gate.bias.fill_(logit)
    return model


def test_always_generating_is_softmax() -> None:
    pointer, plain = with_gate(100.0), small("transformer")
    copy_weights(pointer, plain)
    assert_equal_models(pointer, plain)


def test_always_copying_has_its_mass_on_source_tokens() -> None:
    model, batch = with_gate(-100.0), make_batch()
    with torch.no_grad():
        probs_BTV = model.log_probs(batch.source_BS, batch.prefix_BT).exp()
    for source, probs_TV in zip(batch.source_BS, probs_BTV, strict=True):
        copied_T = probs_TV[:, source[source != 1].unique()].sum(dim=1)
        torch.testing.assert_close(copied_T, torch.ones_like(copied_T))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("chunk", [40, 2**23])
def test_gradients_match_the_log_probabilities(smoothing: float, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In chunks of one token and all at once, with weighted tokens."""
    monkeypatch.setitem(cross_entropy.CHUNK_LOGITS, "cpu", chunk)
    model, batch = small("pointer-generator").double(), make_batch()
    batch.source_BS[2, 1:4] = batch.source_BS[2, 0]  # a repeated token
    batch.target_BT[1, 2] = batch.source_BS[1, 0]  # and a copyable one
    importance_BT = torch.rand(batch.target_BT.shape, dtype=torch.double) + 0.5
    loss = model(*batch, smoothing, importance_BT)
    loss.total.backward()
    found = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
    model.zero_grad()
    log_probs_BTV = model.log_probs(batch.source_BS, batch.prefix_BT)
    nll_BT = -log_probs_BTV.gather(2, batch.target_BT[..., None])[..., 0]
    smoothed_BT = (1 - smoothing) * nll_BT - smoothing * log_probs_BTV.mean(dim=-1)
    expected = (smoothed_BT * importance_BT)[batch.target_BT != 1].sum()
    expected.backward()
    torch.testing.assert_close(loss.total, expected)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(found[name], parameter.grad, rtol=1e-6, atol=1e-9, msg=name)


def test_extreme_logits_stay_finite() -> None:
    model, batch = with_gate(0.0), make_batch()
    with torch.no_grad():
        model.head.weight_VD.mul_(200)
    loss = model(*batch, 0.1)
    loss.total.backward()
    assert bool(torch.isfinite(loss.total))
    assert all(bool(torch.isfinite(parameter.grad).all()) for parameter in model.parameters())


def test_coverage_sums_previous_attention() -> None:
    copied_BTS = torch.tensor([[[0.7, 0.3], [0.6, 0.4], [0.1, 0.9]]])
    real_BT = torch.tensor([[True, True, False]])
    torch.testing.assert_close(coverage_loss(copied_BTS, real_BT), torch.tensor(0.6 + 0.3))


def test_coverage_is_part_of_the_training_loss_only() -> None:
    covering, plain = small(head={"type": "pointer", "coverage": 0.5}), small(head={"type": "pointer"})
    batch = make_batch()
    with torch.no_grad():
        assert torch.equal(covering(*batch).total, plain(*batch).total)
        added = covering.train()(*batch).total - plain.train()(*batch).total
    assert float(added) > 0.01


def test_two_vocabularies_are_rejected() -> None:
    with pytest.raises(ConfigurationError) as caught:
        build("pointer-generator", size="tiny", vocab_size=(VOCABULARY, VOCABULARY + 1))
    assert str(caught.value) == (
        "head.type: head `pointer` copies tokens, so both sides need one vocabulary, but the source has 23 entries and "
        "the target 24. Prepare the data without `separate_vocab`."
    )


def test_two_vocabularies_of_equal_size_are_rejected(tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("system: pointer-generator\nmodel: {size: tiny}\n")
    with pytest.raises(RecipeError, match="head `pointer` copies tokens, so both sides need one vocabulary"):
        load_recipe(recipe, [], (VOCABULARY, VOCABULARY), shared_vocabulary=False)
    load_recipe(recipe, [], (VOCABULARY, VOCABULARY), shared_vocabulary=True)
    recipe.write_text("system: transformer\nmodel: {size: tiny, share_embeddings: all}\n")
    with pytest.raises(RecipeError, match=r"`all` needs one vocabulary\. Prepare the data"):
        load_recipe(recipe, [], (VOCABULARY, VOCABULARY), shared_vocabulary=False)
