"""Upload to and download from the Hub, with a local fake of its API."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import lamina
from hub_stand_in import HubStandIn, hub
from lamina.interop.huggingface import export_huggingface
from lamina.recipe.decode import SearchSettings
from lamina.text.pipeline import SIDES, make_pipeline
from lamina.text.subwords import learn_sentencepiece
from serving_support import start_server
from support import WORDS, run_lamina, save, small

huggingface_hub = pytest.importorskip("huggingface_hub")


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[HubStandIn]:
    with hub() as server:
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", server.address)
        template = "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", server.address + template)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_XET", True)
        monkeypatch.setenv("HF_TOKEN", "hf_test")
        monkeypatch.setenv("HF_HUB_DISABLE_PROGRESS_BARS", "1")
        yield server


def test_upload_and_download(stand_in: HubStandIn, tmp_path: Path) -> None:
    save(small("msc-surface"), tmp_path / "run" / "model")
    (tmp_path / "run" / "run.json").write_text(json.dumps({"data": "abc123"}))
    (tmp_path / "bleu.json").write_text(json.dumps([{"name": "BLEU", "score": 12.345, "signature": "s"}]))
    result = run_lamina(
        *("push", tmp_path / "run", "me/model", "--license", "mit", "--metrics", tmp_path / "bleu.json")
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout == f"{stand_in.address}/me/model\n"
    known, text = card_of(stand_in, "me/model")
    assert (known["library_name"], known["pipeline_tag"], known["license"]) == ("lamina", "translation", "mit")
    assert known["tags"] == ["collaborative", "lamina", "msc", "surface"]
    assert known["model-index"][0]["results"][0]["metrics"] == [{"type": "bleu", "value": 12.35}]
    assert 'lamina.load("hf:me/model")' in text
    assert "`abc123`" in text
    expected = lamina.load(tmp_path / "run").translate(["w1 w2 w3"])[0]
    assert lamina.load("hf:me/model").translate(["w1 w2 w3"])[0].text == expected.text
    assert run_lamina("translate", "hf:me/model", stdin="w1 w2 w3\n").stdout == f"{expected.text}\n"


def card_of(stand_in: HubStandIn, repository: str) -> tuple[dict[str, Any], str]:
    _, metadata, text = stand_in.repositories[repository]["README.md"].decode().split("---\n", 2)
    return yaml.safe_load(metadata), text


def test_an_onnx_export_translates_from_the_hub(stand_in: HubStandIn, tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    save(small(), tmp_path / "model")
    out = tmp_path / "onnx"
    assert run_lamina("export", tmp_path / "model", "--to", "onnx", "--out", out).returncode == 0
    result = run_lamina("push", out, "me/graphs")
    assert result == (0, f"{stand_in.address}/me/graphs\n", "Next: lamina translate hf:me/graphs\n")
    metadata, text = card_of(stand_in, "me/graphs")
    assert (metadata["library_name"], metadata["license"], metadata["tags"]) == ("lamina", "other", ["lamina", "onnx"])
    assert 'lamina.load("hf:me/graphs")' in text
    expected = lamina.load(tmp_path / "model").translate(["w1 w2 w3"])[0]
    assert lamina.load("hf:me/graphs").translate(["w1 w2 w3"])[0].text == expected.text
    (out / "decoder.onnx").write_bytes(b"nonsense")
    assert run_lamina("push", out, "me/other") == (
        3,
        "",
        f"lamina: {out / 'decoder.onnx'}: damaged (SHA-256 does not match onnx.json).\n",
    )
    assert "me/other" not in stand_in.repositories


def test_models_of_the_hub_are_served(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("fastapi")
    served: list[Any] = []
    monkeypatch.setattr("lamina.serving.server.run_server", served.append)
    assert run_lamina("serve", "hf:me/model", "--name", "other=hf:you/model") == (0, "", "")
    (options,) = served
    assert {name: str(place) for name, place in options.models.items()} == {
        "model": "hf:me/model",
        "other": "hf:you/model",
    }


@pytest.mark.slow
def test_a_server_downloads_its_model(stand_in: HubStandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("fastapi")
    save(small(), tmp_path / "model")
    assert run_lamina("push", tmp_path / "model", "me/served").returncode == 0
    monkeypatch.setenv("HF_ENDPOINT", stand_in.address)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "served"))
    monkeypatch.setenv("HF_HUB_DISABLE_XET", "1")
    expected = lamina.load(tmp_path / "model").translate("w1 w2 w3").text
    with start_server(tmp_path, "hf:me/served") as server:
        answer = server.translate("w1 w2 w3")
    assert (answer["model"], answer["results"][0]["text"]) == ("served", expected)


def test_the_text_pipeline_of_a_model_on_the_hub(stand_in: HubStandIn, tmp_path: Path) -> None:
    save(small(), tmp_path / "model")
    assert run_lamina("push", tmp_path / "model", "me/text").returncode == 0
    pairs = [("w1 w2", "w3 w4"), ("w5 w6", "w7 w8")]
    data = lamina.prepare(pairs, valid=pairs, out=tmp_path / "data", text_from="hf:me/text", workers=1)
    assert data.text.digests() == lamina.load(tmp_path / "model").text.digests()


def test_the_card_of_an_export_is_completed(stand_in: HubStandIn, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "tokenizer_config.json").write_text("{}")
    (tmp_path / "README.md").write_text("---\nlibrary_name: transformers\nlanguage: [en, de]\n---\n# Model\n")
    result = run_lamina("push", tmp_path, "me/marian", "--license", "mit")
    assert result == (0, f"{stand_in.address}/me/marian\n", "")  # Lamina does not read this format
    assert card_of(stand_in, "me/marian") == (
        {"library_name": "transformers", "pipeline_tag": "translation", "license": "mit", "language": ["en", "de"]},
        "# Model\n",
    )


def test_the_export_of_an_imported_marian_model(stand_in: HubStandIn, tmp_path: Path) -> None:
    """It has SentencePiece models and no `tokenizer.json`."""
    pieces, symbols = learn_sentencepiece(["A dog runs."] * 20, 300), WORDS.text().encode()
    files = {f"{side}.spm": pieces for side in SIDES} | {f"vocabulary.{side}.txt": symbols for side in SIDES}
    text = make_pipeline("marian", ("en", "de"), False, files)
    export_huggingface(small("transformer-post"), text, SearchSettings(), tmp_path / "out")
    assert run_lamina("push", tmp_path / "out", "me/back") == (0, f"{stand_in.address}/me/back\n", "")
    assert stand_in.repositories["me/back"].keys() == {
        *("README.md", "config.json", "generation_config.json", "model.safetensors"),
        *("source.spm", "target.spm", "vocab.json", "tokenizer_config.json"),
    }
    assert card_of(stand_in, "me/back")[0] == {
        "library_name": "transformers",
        "pipeline_tag": "translation",
        "license": "other",
        "language": ["en", "de"],
    }


def test_mistakes_are_one_line(stand_in: HubStandIn, tmp_path: Path) -> None:
    save(small(), tmp_path / "model")
    result = run_lamina("translate", "hf:nobody/nothing", stdin="w1\n")
    assert result.returncode == 3
    assert result.stderr.startswith("lamina: hf:nobody/nothing: cannot be downloaded (")
    assert result.stderr.count("\n") == 1
    assert run_lamina("push", tmp_path / "model", "name") == (
        2,
        "",
        "lamina: A repository must be OWNER/NAME, but is `name` instead.\n",
    )
    (tmp_path / "bad.json").write_text("{}x")
    assert run_lamina("push", tmp_path / "model", "me/x", "--metrics", tmp_path / "bad.json") == (
        3,
        "",
        f"lamina: {tmp_path / 'bad.json'}: must be the output of `lamina eval --json`.\n",
    )


def test_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(small(), tmp_path / "model")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    line = "needs an extra: pip install 'lamina[hub]'\n"
    assert run_lamina("push", tmp_path / "model", "me/x") == (5, "", f"lamina: lamina push {line}")
    assert run_lamina("translate", "hf:me/x", stdin="w1\n") == (5, "", f"lamina: hf:me/x {line}")


def test_importing_lamina_does_not_import_the_hub_client() -> None:
    code = "import sys, lamina.cli; assert not [n for n in sys.modules if n.startswith(('huggingface', 'torch'))]"
    subprocess.run([sys.executable, "-c", code], check=True)
