"""Trained models of four systems: engine and torch give the same n-best lists for 500 demo sentences."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from lamina.demo.grammar import write_demo
from lamina.model.seq2seq import Seq2Seq
from lamina.recipe.decode import SearchSettings
from lamina.search.hypothesis import Hypothesis
from lamina.store.loading import load_run
from lamina.translation.backends import SourceBatch
from lamina.translation.torch_backend import TorchBackend
from support import Searcher, check_agreement, run_lamina, search_in_double

SYSTEMS = ["transformer", "surface-fusion", "msc", "msc-surface"]
TRAINING = "train: {max_steps: 120, batch_tokens: 1024, lr: 2.0e-3, warmup: 40, save_every: 120, validate_every: 120}\n"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo")
    write_demo(folder, train=5000, valid=50, test=500)
    files = [folder / f"{split}.{language}" for split in ("train", "valid") for language in ("en", "de")]
    done = run_lamina("prepare", "--train", *files[:2], "--valid", *files[2:], "--out", folder / "data")
    assert done.returncode == 0, done.stderr
    return folder


def tokens_of(hypotheses: list[Hypothesis]) -> list[list[int]]:
    return [each.tokens for each in hypotheses]


def exact_tokens(model: Seq2Seq, sources: list[list[int]], settings: SearchSettings, number: int) -> list[list[int]]:
    return tokens_of(search_in_double(model, sources[number], settings))


@pytest.mark.slow
@pytest.mark.parametrize("system", SYSTEMS)
def test_nbest_lists_of_500_sentences(system: str, demo: Path) -> None:
    (demo / f"{system}.yaml").write_text(f"name: {system}\nsystem: {system}\nmodel: {{size: tiny}}\n{TRAINING}")
    run = demo / "runs" / system
    done = run_lamina("train", demo / f"{system}.yaml", "--data", demo / "data", "--out", run)
    assert done.returncode == 0, done.stderr
    loaded, settings = load_run(run), SearchSettings()
    model = loaded.model.eval()
    sources = loaded.text.source.encode((demo / "test.en").read_text().splitlines())
    assert len(sources) == 500
    batches = [SourceBatch(sources[first : first + 50]) for first in range(0, 500, 50)]
    expected = [each for found in TorchBackend([model]).search(batches, settings) for each in found]
    engine = Searcher("engine", model).engine
    assert engine is not None
    found = [engine.search([source], settings)[0] for source in sources]
    exact = partial(exact_tokens, model, sources, settings)
    check_agreement(*([tokens_of(each) for each in lists] for lists in (found, expected)), exact)
    for ours, theirs in zip(found, expected, strict=True):
        if tokens_of(ours) == tokens_of(theirs):
            assert [each.log_prob for each in ours] == pytest.approx([each.log_prob for each in theirs], abs=1e-4)
    for size in (7, 32):
        together = [engine.search(sources[first : first + size], settings) for first in range(0, 500, size)]
        assert [each for batch in together for each in batch] == found  # bit-identical
