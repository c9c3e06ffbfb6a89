"""Session fixture with the text, data and two small runs that the examples in docstrings refer to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import lamina
from lamina.demo.grammar import write_demo

MODEL = {"size": "tiny", "d_model": 16, "ffn_size": 32, "heads": 2, "encoder": {"layers": 2}, "decoder": {"layers": 2}}
TRAIN = {"max_steps": 24, "batch_tokens": 256, "lr": 2e-3, "warmup": 8, "save_every": 8, "validate_every": 24}


@pytest.fixture(scope="session")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """train.*, valid.* and test.*, recipe.yaml, data, runs/first (surface-fusion) and runs/second (fine-grained)."""
    folder = tmp_path_factory.mktemp("api")
    write_demo(str(folder), train=250, valid=30, test=8)  # any path may be a `str`
    two = {split: (folder / f"{split}.en", folder / f"{split}.de") for split in ("train", "valid")}
    data = lamina.prepare(two["train"], two["valid"], folder / "data", vocab_size=500, workers=1)
    recipe = {"system": "surface-fusion", "model": MODEL, "train": {**TRAIN, "gradients_every": 6}}
    (folder / "recipe.yaml").write_text(json.dumps(recipe))  # JSON is YAML
    lamina.train(folder / "recipe.yaml", data, folder / "runs" / "first", progress=False)
    fused = {**recipe, "system": "fine-grained"}
    lamina.train(fused, data, folder / "runs" / "second", progress=False, max_steps=4, warmup=2)
    return folder
