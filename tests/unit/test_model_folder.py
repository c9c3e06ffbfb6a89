"""Model folders: written atomically, and clear errors if damaged."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from lamina.base.files import digest
from lamina.base.reading import read_sealed_json, sealed
from lamina.errors import DataError
from lamina.store.model_folder import load_model_folder
from support import WORDS, save, small


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save(small("msc-surface"), tmp_path / "deep" / "model")
    return tmp_path / "deep" / "model"


def change_config(folder: Path, change: Callable[[dict], None]) -> None:
    content = read_sealed_json(folder / "config.json")
    change(content)
    (folder / "config.json").write_text(json.dumps(sealed(content)))


def test_a_folder_is_self_contained(folder: Path) -> None:
    assert sorted(path.name for path in folder.iterdir()) == [
        "README.md",
        "config.json",
        "model.safetensors",
        "text.json",
        "vocabulary.source.txt",
        "vocabulary.target.txt",
    ]
    loaded = load_model_folder(folder)
    assert (loaded.text.source.vocabulary, loaded.text.target.vocabulary) == (WORDS, WORDS)
    assert "msc × collaborative × surface" in (folder / "README.md").read_text()
    assert not loaded.model.training
    assert [path.name for path in folder.parent.iterdir()] == ["model"]


def test_shared_weights_are_written_once(folder: Path) -> None:
    names = load_file(folder / "model.safetensors")
    assert "source_embedding.tokens.weight" in names
    assert "head.weight_VD" not in names


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DataError, match=r"model: cannot be written \(File exists\)"):
        save(small(), tmp_path / "file" / "model")


def test_a_failed_write_keeps_the_previous_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {path.name: digest(path) for path in folder.iterdir()}
    monkeypatch.setattr("lamina.store.model_folder.model_card", lambda model, origin: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        save(small(), folder)
    assert {path.name: digest(path) for path in folder.iterdir()} == before
    assert [path.name for path in folder.parent.iterdir()] == ["model"]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "config.json").unlink(), "config.json: not found; .* is not a model folder"),
        (lambda f: (f / "config.json").write_text("{"), "config.json: not JSON"),
        (lambda f: (f / "config.json").write_text("[" * 100_000), "config.json: not JSON"),
        (lambda f: (f / "config.json").write_text('{"format": 99}'), "format must be 2, but is 99 instead"),
        (
            lambda f: (f / "config.json").write_text('{"format": 1}'),
            r"format must be 2, but is 1 instead\. It was written before Lamina 0\.2; train or import the model again",
        ),
        (lambda f: (f / "config.json").write_text('{"format": 2, "sha256": 3}'), "`sha256` must map the names"),
        (
            lambda f: (f / "config.json").write_text('{"format": 2, "sha256": {"../x": ""}}'),
            "`sha256` must map the names",
        ),
        (lambda f: (f / "model.safetensors").write_bytes(b"abc"), "model.safetensors: damaged"),
        (lambda f: (f / "model.safetensors").unlink(), "model.safetensors: not found, but config.json lists it"),
        (lambda f: (f / "vocabulary.source.txt").write_text("other"), "vocabulary.source.txt: damaged"),
    ],
)
def test_damage_is_named(damage: Callable[[Path], None], message: str, folder: Path) -> None:
    damage(folder)
    with pytest.raises(DataError, match=message):
        load_model_folder(folder)


def test_an_invalid_configuration_is_named(folder: Path) -> None:
    change_config(folder, lambda content: content["model"].update(encoder={"type": "stack", "layers": 4}, heads=3))
    with pytest.raises(DataError, match=r"heads: must divide d_model 16(.|\n)*bridge `collaborative` reads contexts"):
        load_model_folder(folder)


def test_a_billion_layers_are_refused_at_once(folder: Path) -> None:
    change_config(folder, lambda content: content["model"]["encoder"].update(layers=10**9))
    with pytest.raises(DataError, match=r"config.json: encoder.layers: must be less than or equal to 1000"):
        load_model_folder(folder)


def test_an_unknown_option_in_the_configuration_is_named(folder: Path) -> None:
    change_config(folder, lambda content: content["model"]["bridge"].update(typo=1))
    with pytest.raises(DataError, match=r"config.json: bridge.typo: not an option. Did you mean `type`"):
        load_model_folder(folder)


def test_a_vocabulary_of_another_size_is_rejected(folder: Path) -> None:
    change_config(folder, lambda content: content["model"].update(source_vocab=24, share_embeddings="none"))
    with pytest.raises(
        DataError, match=r"source vocabulary must have 24 entries to match the model, but has 23 instead"
    ):
        load_model_folder(folder)


def test_weights_of_another_model_are_rejected(folder: Path) -> None:
    def replace_weights(weights: dict[str, torch.Tensor]) -> None:
        save_file(weights, folder / "model.safetensors")
        change_config(
            folder,
            lambda content: content["sha256"].update({"model.safetensors": digest(folder / "model.safetensors")}),
        )

    weights = load_file(folder / "model.safetensors")
    norm = weights.pop("decoder.final_norm.weight")
    replace_weights({**weights, "encoder.layers.9.x": norm})
    with pytest.raises(
        DataError, match=r"lacks decoder.final_norm.weight and has encoder.layers.9.x, which the model does not have"
    ):
        load_model_folder(folder)
    replace_weights({**weights, "decoder.final_norm.weight": torch.zeros(3)})
    with pytest.raises(DataError, match=r"decoder.final_norm.weight must have shape \(16,\), but has \(3,\) instead"):
        load_model_folder(folder)


def test_a_changed_setting_is_detected(folder: Path) -> None:
    path = folder / "config.json"
    path.write_text(path.read_text().replace('"gate": 0.8', '"gate": 0.9'))
    with pytest.raises(
        DataError, match=r"config.json: damaged \(its `checksum` does not match; if you edited the file"
    ):
        load_model_folder(folder)
    path.write_text(re.sub(r'"checksum": "\w+"', '"checksum": null', path.read_text()))
    assert load_model_folder(folder).model.config.head.gate == 0.9
