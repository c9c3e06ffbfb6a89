"""Model folders: complete or not there, and clear about what is wrong with them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from lamina.errors import DataError, UsageError
from lamina.model.folder import load_model, load_vocabularies, save_model, write_folder
from lamina.text.vocabulary import SPECIALS, Vocabularies, Vocabulary
from support import small

WORDS = Vocabulary((*SPECIALS, *(f"w{n}" for n in range(19))))


def write(folder: Path) -> None:
    write_folder(small("msc-surface"), Vocabularies(WORDS, WORDS), folder, "Made by a test.")


def test_a_folder_holds_all_that_is_needed(tmp_path: Path) -> None:
    write(tmp_path / "deep" / "model")
    folder = tmp_path / "deep" / "model"
    assert sorted(path.name for path in folder.iterdir()) == [
        "README.md",
        "config.json",
        "model.safetensors",
        "vocabulary.source.txt",
        "vocabulary.target.txt",
    ]
    assert load_vocabularies(folder) == Vocabularies(WORDS, WORDS)
    assert "msc × collaborative × surface" in (folder / "README.md").read_text()
    assert not load_model(folder).training
    assert [path.name for path in folder.parent.iterdir()] == ["model"]


def test_shared_weights_are_written_once(tmp_path: Path) -> None:
    save_model(small(), tmp_path)
    names = load_file(tmp_path / "model.safetensors")
    assert "source_embedding.tokens.weight" in names
    assert "head.weight_VD" not in names


def test_an_existing_folder_is_not_overwritten(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="exists already"):
        write(tmp_path)


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DataError, match="cannot be written"):
        write(tmp_path / "file" / "model")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "config.json").unlink(), "config.json: not found; .* is not a model folder"),
        (lambda f: (f / "config.json").write_text("{"), "config.json: not JSON"),
        (lambda f: (f / "config.json").write_text('{"format": 99}'), "format must be 1, but is 99 instead"),
        (lambda f: (f / "model.safetensors").write_bytes(b"abc"), "model.safetensors: cannot be read as safetensors"),
        (lambda f: (f / "model.safetensors").unlink(), "model.safetensors: cannot be read as safetensors"),
    ],
)
def test_damage_is_named(damage: object, message: str, tmp_path: Path) -> None:
    save_model(small(), tmp_path)
    damage(tmp_path)
    with pytest.raises(DataError, match=message):
        load_model(tmp_path)


def test_a_configuration_that_cannot_work_is_named(tmp_path: Path) -> None:
    save_model(small(), tmp_path)
    content = json.loads((tmp_path / "config.json").read_text())
    content["model"]["bridge"] = {"type": "collaborative"}
    content["model"]["heads"] = 3
    (tmp_path / "config.json").write_text(json.dumps(content))
    with pytest.raises(DataError, match=r"heads: must divide d_model 16(.|\n)*bridge `collaborative` reads contexts"):
        load_model(tmp_path)


def test_vocabularies_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"vocabulary.source.txt: not a vocabulary"):
        load_vocabularies(tmp_path)


def test_an_unknown_option_in_the_configuration_is_named(tmp_path: Path) -> None:
    save_model(small(), tmp_path)
    content = json.loads((tmp_path / "config.json").read_text())
    content["model"]["bridge"]["typo"] = 1
    (tmp_path / "config.json").write_text(json.dumps(content))
    with pytest.raises(DataError, match=r"config.json: bridge.typo: not an option. Did you mean `type`"):
        load_model(tmp_path)


def test_weights_of_another_model_are_refused(tmp_path: Path) -> None:
    save_model(small(), tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    weights["encoder.layers.9.x"] = weights.pop("encoder.final_norm.weight")
    save_file(weights, tmp_path / "model.safetensors")
    with pytest.raises(DataError, match=r"lacks encoder.final_norm.weight and has the unknown encoder.layers.9.x"):
        load_model(tmp_path)
    weights = {**weights, "encoder.final_norm.weight": torch.zeros(3)}
    del weights["encoder.layers.9.x"]
    save_file(weights, tmp_path / "model.safetensors")
    with pytest.raises(DataError, match=r"encoder.final_norm.weight must have shape \(16,\), but has \(3,\) instead"):
        load_model(tmp_path)
