"""The hierarchical encoder: a single sentence, visibility between sentences, and agreement of both backends."""

from __future__ import annotations

import pytest
import torch
from test_identities import copy_weights
from torch import Tensor

from lamina.model.encoders.hierarchical import find_sentences
from lamina.model.seq2seq import Seq2Seq
from lamina.recipe.decode import SearchSettings
from support import Searcher, make_batch, pad, rows_of, small

norms = pytest.mark.parametrize("norm", ["pre", "post"])
DOCUMENTS = [[5, 6, 0, 7, 8, 9, 0, 10, 2], [11, 12, 2], [13, 0, 14, 2]]  # 0 ends a sentence


def hierarchical(**own: object) -> Seq2Seq:
    return small("hierarchical", **{"encoder": {"layers": 4}, **own})


def test_sentences() -> None:
    source_BS = pad(DOCUMENTS, left=True)
    found = find_sentences(source_BS, source_BS != 1)
    assert found.number_BS[2].tolist()[-4:] == [0, 0, 1, 1]
    assert found.valid_BK.tolist() == [[True, True, True], [True, False, False], [True, True, False]]
    assert found.last_BK[0].tolist() == [2, 6, 8]
    assert found.seen_BSS[0, 4].nonzero()[:, 0].tolist() == [3, 4, 5, 6]


@norms
def test_one_sentence_without_the_document_is_a_stack(norm: str) -> None:
    model, plain = hierarchical(norm=norm), small("transformer", norm=norm, encoder={"layers": 2})
    copy_weights(model, plain)
    with torch.no_grad():
        model.encoder.spread.weight.zero_()
    batch = make_batch()
    with torch.no_grad():
        one, other = (each.log_probs(batch.source_BS, batch.prefix_BT) for each in (model, plain))
    torch.testing.assert_close(one, other)


def states(model: Seq2Seq, documents: list[list[int]]) -> tuple[Tensor, Tensor]:
    """Last sentence-level and document-level states."""
    with torch.no_grad():
        enc = model.encode(pad(documents))
    return enc.layers[1], enc.layers[-1]


@norms
def test_a_sentence_sees_others_through_the_document_only(norm: str) -> None:
    changed = [[5, 6, 0, 7, 15, 9, 0, 10, 2]]
    sentence, document = states(hierarchical(norm=norm), DOCUMENTS[:1])
    other_sentence, other_document = states(hierarchical(norm=norm), changed)
    elsewhere = [0, 1, 2, 7, 8]
    assert torch.equal(sentence[0, elsewhere], other_sentence[0, elsewhere])
    assert (sentence != other_sentence)[0, 3:7].any()
    assert ((document - other_document)[0].abs().amax(dim=1) > 1e-6).all()


def test_padding_and_batches_change_nothing() -> None:
    model, prefix_BT = hierarchical(), make_batch().prefix_BT
    with torch.no_grad():
        together = model.log_probs(pad(DOCUMENTS), prefix_BT)
        torch.testing.assert_close(model.log_probs(pad(DOCUMENTS, left=True, extra=2), prefix_BT), together)
        for row, document in enumerate(DOCUMENTS):
            alone = model.log_probs(torch.tensor([document]), prefix_BT[row : row + 1])
            torch.testing.assert_close(alone[0], together[row])


@norms
@pytest.mark.parametrize("bridge", ["top", "transparent", "fine_grained", "blocks"])
def test_the_engine_agrees(norm: str, bridge: str) -> None:
    model = hierarchical(norm=norm, bridge={"type": bridge}, head={"type": "pointer"})
    settings, source_BS = SearchSettings(beam=3, max_length=(1.0, 3)), pad(DOCUMENTS)
    found = Searcher("engine", model).search(source_BS, settings)
    expected = Searcher("torch", model).search(source_BS, settings)
    for ours, theirs in zip(found, expected, strict=True):
        assert [each.tokens for each in ours] == [each.tokens for each in theirs]
        assert [each.log_prob for each in ours] == pytest.approx([each.log_prob for each in theirs], abs=1e-4)
    assert rows_of(source_BS) == DOCUMENTS


def test_long_documents_take_the_fused_kernel() -> None:
    """Padding rows attend only to themselves, and nothing becomes NaN."""
    long = [*([5, 6, 7, 0] * 60), 2]
    model = hierarchical()
    with torch.no_grad():
        found = model.log_probs(pad([long, [5, 2]]), make_batch().prefix_BT[:2])
        alone = model.log_probs(torch.tensor([[5, 2]]), make_batch().prefix_BT[1:2])
    assert bool(torch.isfinite(found).all())
    torch.testing.assert_close(found[1], alone[0])
