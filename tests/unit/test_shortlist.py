"""Vocabulary shortlists give the same results on every backend."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from lamina.engine.compilation import make_engine
from lamina.engine.lowering import UnsupportedModule
from lamina.errors import UsageError
from lamina.model.seq2seq import Seq2Seq
from lamina.recipe.decode import SearchSettings
from lamina.search.sampling import SamplingSettings
from lamina.search.shortlist import Shortlist, digest_vocabularies, learn_shortlist, load_shortlist
from lamina.systems.published import SYSTEMS
from lamina.text.pipeline import pipeline_of_words
from lamina.text.vocabulary import SPECIALS, Vocabularies, Vocabulary
from lamina.translation.backends import SourceBatch, choose_backend
from lamina.translation.torch_backend import TorchBackend
from lamina.translation.translator import Translator
from support import VOCABULARY, WORDS, make_batch, rows_of, run_lamina, save, small

TEXT = pipeline_of_words(Vocabularies(WORDS, WORDS))
SEARCH = SearchSettings(beam=3, max_length=(1.0, 6))
SOURCES = rows_of(make_batch().source_BS)


def everything() -> Shortlist:
    ids = np.tile(np.arange(VOCABULARY, dtype=np.int32), (VOCABULARY, 1))
    return Shortlist(ids, np.zeros(0, np.int32), digest_vocabularies(TEXT))


def few() -> Shortlist:
    """Shortlist with each source word itself and its neighbour."""
    ids = np.arange(VOCABULARY, dtype=np.int32)
    return Shortlist(np.stack([ids, np.roll(ids, 1)], axis=1), np.array([9], np.int32), digest_vocabularies(TEXT))


def test_selection() -> None:
    assert few().select([[5, 2], [12, 2]], [[20]]).tolist() == [0, 1, 2, 3, 4, 5, 9, 11, 12, 20]


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("int8", [False, True])
def test_the_whole_vocabulary_changes_nothing(system: str, int8: bool) -> None:
    engine = make_engine([small(system)], int8)
    words = everything().select(SOURCES)
    assert words.tolist() == list(range(VOCABULARY))
    assert engine.search(SOURCES, SEARCH, words=words) == engine.search(SOURCES, SEARCH)


def check_backends(*models: Seq2Seq, prefixes: list[list[int]] | None = None) -> None:
    words = few().select(SOURCES, prefixes)
    try:
        found = make_engine(models).search(SOURCES, SEARCH, prefixes, words=words)
    except UnsupportedModule as reason:
        pytest.skip(str(reason))
    (torch_found,) = TorchBackend(models, few()).search([SourceBatch(SOURCES, prefixes)], SEARCH)
    assert {token for some in found for each in some for token in each.tokens} <= set(words.tolist())
    for one, other in zip(found, torch_found, strict=True):
        assert [each.tokens for each in one] == [each.tokens for each in other]
        assert [each.log_prob for each in one] == pytest.approx([each.log_prob for each in other], abs=1e-4)


@pytest.mark.parametrize("system", [system for system in SYSTEMS if system != "pointer-generator"])
def test_torch_and_the_engine_agree(system: str) -> None:
    check_backends(small(system))


@pytest.mark.parametrize("share", ["decoder", "none"])
def test_embeddings_that_are_not_shared(share: str) -> None:
    """Softmax rows come from the packed matrix if there is no embedding table, and always in int8."""
    model = small("transformer", share_embeddings=share)
    check_backends(model)
    for int8 in (False, True):
        engine = make_engine([model], int8)
        assert engine.search(SOURCES, SEARCH, words=everything().select(SOURCES)) == engine.search(SOURCES, SEARCH)
    words = few().select(SOURCES)
    exact, rounded = (make_engine([model], int8).search(SOURCES, SEARCH, words=words) for int8 in (False, True))
    for one, other in zip(exact, rounded, strict=True):
        assert other[0].log_prob == pytest.approx(one[0].log_prob, abs=0.3)


def test_the_pointer_head_rejects_a_shortlist() -> None:
    with pytest.raises(UsageError, match="not supported for head `pointer`, which copies any token; omit it"):
        choose_backend([small("pointer-generator")], shortlist=few())


@pytest.mark.parametrize("backend", ["engine", "torch"])
def test_sampling_rejects_a_shortlist(backend: str) -> None:
    model = small("transformer")
    own = TorchBackend([model], few()) if backend == "torch" else choose_backend([model], shortlist=few())[0]
    translator = Translator([model], TEXT, SEARCH, backend=own)
    with pytest.raises(UsageError, match="A shortlist applies only to beam search; omit it to sample"):
        translator.translate("a b", sampling=SamplingSettings())


def test_ensembles_and_prefixes() -> None:
    check_backends(small("transformer"), small("msc-surface"), prefixes=[[7, 20], [], [4]])


def test_probabilities_are_those_of_a_smaller_vocabulary() -> None:
    """Log p over the shortlist is the renormalised log p over the vocabulary."""
    model, source = small("transformer"), SOURCES[:1]
    words = few().select(source)
    ((best, *_),) = make_engine([model]).search(source, SEARCH, words=words)
    with torch.no_grad():
        full = model.log_probs(torch.tensor(source), torch.tensor([[0, *best.tokens[:-1]]]))[0]
    own = full[:, torch.as_tensor(words)].log_softmax(dim=-1)
    places = np.searchsorted(words, best.tokens)
    assert best.log_prob == pytest.approx(float(own[range(len(places)), places].sum()), abs=1e-4)


def test_a_lexical_table_finds_the_translations() -> None:
    """Source word i translates to target word i, in random order."""
    rng = np.random.default_rng(1)
    vocabulary = Vocabulary((*SPECIALS, *(f"x{n}" for n in range(60))))
    text = pipeline_of_words(Vocabularies(vocabulary, vocabulary))
    pairs = []
    for _ in range(400):
        words = rng.choice(np.arange(4, 64), 6, replace=False)
        pairs.append(([*words.tolist(), 2], [*rng.permutation(4 + (words - 4 + 7) % 60).tolist(), 2]))
    table = learn_shortlist(pairs, text, candidates=2, frequent=3)
    assert [4 + (word - 4 + 7) % 60 for word in range(4, 64)] == table.candidates[4:, 0].tolist()
    assert table.frequent[0] == 2


def test_save_and_load(tmp_path: Path) -> None:
    few().save(tmp_path / "list")
    loaded = load_shortlist(tmp_path / "list", TEXT)
    assert np.array_equal(loaded.candidates, few().candidates)
    save(small("surface-fusion"), tmp_path / "model")
    result = run_lamina("translate", tmp_path / "model", "--shortlist", tmp_path / "list", stdin="w1 w2\n")
    assert result.returncode == 0
    assert result.stdout.count("\n") == 1
    assert run_lamina("translate", tmp_path / "model", "--shortlist", tmp_path / "none", stdin="w1\n") == (
        3,
        "",
        f"lamina: {tmp_path / 'none' / 'shortlist.safetensors'}: not found; create it with `lamina shortlist`.\n",
    )
    Shortlist(few().candidates, few().frequent, "other").save(tmp_path / "other")
    assert run_lamina("translate", tmp_path / "model", "--shortlist", tmp_path / "other", stdin="w1\n") == (
        3,
        "",
        f"lamina: {tmp_path / 'other'}: belongs to other vocabularies; create a new one with `lamina shortlist`.\n",
    )
    (tmp_path / "other" / "shortlist.safetensors").write_bytes(b"x")
    result = run_lamina("translate", tmp_path / "model", "--shortlist", tmp_path / "other", stdin="w1\n")
    assert result.returncode == 3
    assert result.stderr.startswith(f"lamina: {tmp_path / 'other' / 'shortlist.safetensors'}: is not a shortlist (")
