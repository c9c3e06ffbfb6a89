"""Session fixtures for command tests: prepared demo data and a small run."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina.demo.grammar import write_demo
from support import run_lamina

RECIPE = """\
name: tiny
system: surface-fusion
model: {size: tiny, d_model: 16, ffn_size: 32, heads: 2, dropout: 0.1, encoder: {layers: 2}, decoder: {layers: 2}}
train: {max_steps: 24, batch_tokens: 256, lr: 2.0e-3, warmup: 8, save_every: 5, validate_every: 8, log_every: 3, \
gradients_every: 6}
"""


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("train")
    write_demo(folder, train=250, valid=30, test=1)
    files = [str(folder / f"{split}.{language}") for split in ("train", "valid") for language in ("en", "de")]
    result = run_lamina(
        "prepare", "--train", *files[:2], "--valid", *files[2:], "--vocab-size", "500", "--out", folder / "data"
    )
    assert result.returncode == 0, result.stderr
    (folder / "recipe.yaml").write_text(RECIPE)
    return folder


@pytest.fixture(scope="session")
def straight(data: Path) -> Path:
    """An uninterrupted run; tests must not modify it."""
    result = run_lamina("train", data / "recipe.yaml", "--data", data / "data", "--out", data / "straight")
    assert result.returncode == 0, result.stderr
    return data / "straight"
