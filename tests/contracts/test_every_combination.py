"""Contracts of every encoder × bridge × head × decoder attention, with either norm."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from lamina.errors import ConfigurationError, UsageError
from lamina.model.bridges import BRIDGES
from lamina.model.encoders import ENCODERS
from lamina.store.model_folder import load_model_folder
from lamina.systems.build import build
from lamina.systems.published import SYSTEMS
from support import (
    ILLEGAL,
    VOCABULARY,
    Combination,
    build_combination,
    every_combination,
    every_part,
    make_batch,
    pad,
    rows_of,
    save,
    small,
)


@every_combination
def test_shape_and_probability_mass(combination: Combination) -> None:
    batch = make_batch()
    with torch.no_grad():
        log_probs_BTV = build_combination(combination).log_probs(batch.source_BS, batch.prefix_BT)
    assert log_probs_BTV.shape == (*batch.prefix_BT.shape, VOCABULARY)
    mass_BT = log_probs_BTV.exp().sum(dim=-1)
    if combination.head in ("softmax", "pointer"):
        torch.testing.assert_close(mass_BT, torch.ones_like(mass_BT))
    else:
        assert (mass_BT < 1 + 1e-5).all()
        assert (mass_BT > 0).all()


@every_combination
def test_padding_on_either_side_changes_nothing(combination: Combination) -> None:
    model, batch = build_combination(combination), make_batch()
    real_BT = batch.prefix_BT != 1
    with torch.no_grad():
        expected = model.log_probs(batch.source_BS, batch.prefix_BT)[real_BT]
        for left in (False, True):
            source_BS = pad(rows_of(batch.source_BS), left=left, extra=3)
            torch.testing.assert_close(model.log_probs(source_BS, batch.prefix_BT)[real_BT], expected)
        longer_BT = pad(rows_of(batch.prefix_BT), extra=2)
        found = model.log_probs(batch.source_BS, longer_BT)[:, : real_BT.shape[1]][real_BT]
    torch.testing.assert_close(found, expected)


@every_combination
def test_batch_of_one_equals_batch_of_many(combination: Combination) -> None:
    model, batch = build_combination(combination), make_batch()
    with torch.no_grad():
        together = model.log_probs(batch.source_BS, batch.prefix_BT)
        for row, (source, prefix) in enumerate(zip(rows_of(batch.source_BS), rows_of(batch.prefix_BT), strict=True)):
            alone = model.log_probs(torch.tensor([source]), torch.tensor([prefix]))
            torch.testing.assert_close(together[row, : len(prefix)], alone[0])


@every_combination
def test_causality(combination: Combination) -> None:
    model, batch = build_combination(combination), make_batch(target_lengths=(6, 6, 6))
    changed_BT = batch.prefix_BT.clone()
    changed_BT[:, 3] = (changed_BT[:, 3] - 4 + 1) % (VOCABULARY - 4) + 4
    with torch.no_grad():
        before = model.log_probs(batch.source_BS, batch.prefix_BT)
        after = model.log_probs(batch.source_BS, changed_BT)
    torch.testing.assert_close(before[:, :3], after[:, :3])
    assert ((before - after)[:, 3:].abs().amax(dim=-1) > 1e-5).all(), "a later position does not see the change"


@every_combination
def test_every_parameter_gets_a_gradient(combination: Combination) -> None:
    model = build_combination(combination).train()
    try:
        loss = model(*make_batch(), 0.1).mean()
    finally:
        model.eval()  # other tests share it
    names, parameters = zip(*model.named_parameters(), strict=True)
    gradients = dict(zip(names, torch.autograd.grad(loss, parameters, allow_unused=True), strict=True))
    assert [name for name, gradient in gradients.items() if gradient is None] == []
    # the key bias shifts all scores of a query equally, so only its slice of a packed bias has gradient 0
    assert [name for name, gradient in gradients.items() if not gradient.abs().sum() > 0] == []


@every_combination
def test_loss_matches_the_log_probabilities(combination: Combination) -> None:
    model, batch, smoothing = build_combination(combination), make_batch(), 0.1
    with torch.no_grad():
        loss = model(*batch, smoothing)
        log_probs = model.log_probs(batch.source_BS, batch.prefix_BT)
    real_BT = batch.target_BT != 1
    nll_BT = -log_probs.gather(2, batch.target_BT[..., None])[..., 0] * real_BT
    smooth_BT = -log_probs.mean(dim=-1) * real_BT
    torch.testing.assert_close(loss.nll_BT, nll_BT)
    torch.testing.assert_close(loss.total, ((1 - smoothing) * nll_BT + smoothing * smooth_BT).sum())
    assert loss.tokens == real_BT.sum()


@every_part
def test_save_and_load(combination: Combination, tmp_path: Path) -> None:
    model, batch = build_combination(combination), make_batch()
    save(model, tmp_path / "model")
    loaded = load_model_folder(tmp_path / "model").model
    assert loaded.config == model.config
    with torch.no_grad():
        expected = model.log_probs(batch.source_BS, batch.prefix_BT)
        assert torch.equal(loaded.log_probs(batch.source_BS, batch.prefix_BT), expected)


@every_combination
def test_a_bridge_declares_whether_it_reads_the_top(combination: Combination) -> None:
    """The encoder's final norm has parameters only if it does."""
    model = build_combination(combination)
    enc = model.encode(make_batch().source_BS)
    top_BSD = enc.top_BSD.detach().requires_grad_()
    memories = model.bridge(replace(enc, top_BSD=top_BSD))
    total = sum(stream.sum() for memory in memories for stream in memory.streams)
    (gradient,) = torch.autograd.grad(total, top_BSD, allow_unused=True)
    assert (gradient is not None) == model.config.bridge.reads_top


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_dtypes(system: str, dtype: torch.dtype) -> None:
    model, batch = small(system), make_batch()
    with torch.no_grad():
        expected = model.log_probs(batch.source_BS, batch.prefix_BT)
        found = model.to(dtype).log_probs(batch.source_BS, batch.prefix_BT)
    assert found.dtype == torch.promote_types(dtype, torch.float32)
    tolerance = 1e-5 if dtype == torch.float64 else 0.3
    torch.testing.assert_close(found.float(), expected, rtol=tolerance, atol=tolerance)


def test_tokens_of_the_wrong_shape_are_named() -> None:
    model, batch = small(), make_batch()
    with pytest.raises(UsageError, match=r"The source must be a \(batch, length\) tensor of token ids"):
        model.log_probs(batch.source_BS[0], batch.prefix_BT)
    with pytest.raises(UsageError, match=r"The prefix must be .* but is \(3, 6\) of torch.float32 instead"):
        model.log_probs(batch.source_BS, batch.prefix_BT.float())
    with pytest.raises(UsageError, match=r"The prefix must have shape \(3, 6\), but has \(2, 6\) instead"):
        model.log_probs(batch.source_BS, batch.prefix_BT[:2])
    with pytest.raises(UsageError, match=r"The target must have shape \(3, 6\), but has \(3, 4\) instead"):
        model(batch.source_BS, batch.prefix_BT, batch.target_BT[:, :4])
    with pytest.raises(UsageError, match="The prefix must be a tensor of token ids, but is a list instead"):
        model.log_probs(batch.source_BS, batch.prefix_BT.tolist())
    with pytest.raises(UsageError, match=r"The source has ids from \d+ to 99, but its vocabulary has \d+ entries"):
        model.log_probs(batch.source_BS.masked_fill(batch.source_BS == batch.source_BS.max(), 99), batch.prefix_BT)


@pytest.mark.parametrize("combination", [each for each in ILLEGAL if each.norm == "pre"], ids=str)
def test_invalid_combinations_are_named(combination: Combination) -> None:
    with pytest.raises(ConfigurationError) as caught:
        build(size="tiny", vocab_size=VOCABULARY, **combination.choices())
    message = str(caught.value)
    assert f"bridge `{combination.bridge}`" in message
    if not ENCODERS[combination.encoder].makes_contexts:
        assert f"encoder `{combination.encoder}`" in message
    if combination.attention in ("merged", "mixed") and BRIDGES[combination.bridge].streams > 1:
        assert f"decoder attention `{combination.attention}`" in message
