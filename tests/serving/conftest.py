"""Small models and one server that all tests of the package share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from lamina.demo.grammar import demo_pairs
from lamina.store.model_folder import write_model_folder
from lamina.systems.build import build
from lamina.text.pipeline import TextPipeline, make_pipeline
from lamina.text.subwords import learn_sentencepiece
from serving_support import Running, start_server
from support import scramble


@pytest.fixture(scope="session")
def pairs() -> list[tuple[str, str]]:
    return list(demo_pairs("train", 400))


def pipeline(languages: tuple[str, str], lines: list[str]) -> TextPipeline:
    model = learn_sentencepiece(lines, 400)
    return make_pipeline("sentencepiece", languages, False, {"subwords.model": model})


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[str, str]]) -> dict[str, Path]:
    """Small models that write nonsense: what they write does not matter here, only that it is theirs."""
    folder = tmp_path_factory.mktemp("models")
    lines = [line for pair in pairs for line in pair]
    chosen = {
        "fused": ("msc-surface", ("en", "de")),
        "mixed": ("transparent", ("en", "de")),
        "back": ("fine-grained", ("de", "en")),
        "fix": ("pointer-generator", ("en", "en")),
    }
    found = {}
    for seed, (name, (system, languages)) in enumerate(chosen.items()):
        text = pipeline(languages, lines)
        torch.manual_seed(seed)
        own = {"d_model": 32, "ffn_size": 48, "heads": 2, "dropout": 0.0}
        layers = {"encoder": {"layers": 4}, "decoder": {"layers": 2}}
        model = build(system, size="tiny", vocab_size=len(text.target.vocabulary), **own, **layers).eval()
        write_model_folder(folder / name, scramble(model), text, "Made by a test.")
        found[name] = folder / name
    return found


@pytest.fixture(scope="session")
def server(models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Two models and generous limits, shared by all tests that only ask."""
    folder = tmp_path_factory.mktemp("server")
    names = [f"--name={name}={path}" for name, path in models.items()]
    with start_server(folder, *names, "--max-texts", "300", "--threads", "2") as running:
        yield running
