"""Packages for Argos Translate: contents and rejected models."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
import torch

from lamina.model.seq2seq import Seq2Seq
from lamina.store.model_folder import write_model_folder
from lamina.systems.build import build
from lamina.text.pipeline import TextPipeline, make_pipeline
from lamina.text.subwords import learn_sentencepiece
from support import run_lamina, save, scramble, small

pytest.importorskip("ctranslate2")

LINES = [f"the {a} {b} sees the {c}" for a in ("dog", "cat") for b in ("runs", "sings") for c in ("house", "tree")] * 4


def pipeline(language: str = "en") -> TextPipeline:
    return make_pipeline("sentencepiece", (language, "de"), False, {"subwords.model": learn_sentencepiece(LINES, 300)})


def plain(text: TextPipeline) -> Seq2Seq:
    torch.manual_seed(1)
    sizes = {"d_model": 32, "ffn_size": 48, "heads": 4, "dropout": 0.0}
    return scramble(build("transformer", size="tiny", vocab_size=len(text.source.vocabulary), **sizes).eval())


def test_a_package(tmp_path: Path) -> None:
    text = pipeline()
    write_model_folder(tmp_path / "model", plain(text), text, "Made by a test.")
    out = tmp_path / "en-de.argosmodel"
    assert run_lamina("export", tmp_path / "model", "--to", "argos", "--out", out) == (
        0,
        f"{out}: {tmp_path / 'model'} exported to argos\n",
        f"Next: argospm install {out}\n",
    )
    with zipfile.ZipFile(out) as archive:
        names = {name.partition("/")[2] for name in archive.namelist()}
        metadata = json.loads(archive.read("translate-en_de-1_0/metadata.json"))
    assert {"metadata.json", "sentencepiece.model", "README.md", "model/model.bin", "model/config.json"} <= names
    assert (metadata["from_code"], metadata["from_name"], metadata["to_name"]) == ("en", "English", "German")


def test_unsupported_models_are_rejected(tmp_path: Path) -> None:
    save(small("msc"), tmp_path / "msc")
    documents = pipeline().for_documents(True, None)
    write_model_folder(tmp_path / "documents", plain(documents), documents, "Made by a test.")
    save(small(), tmp_path / "words")
    pieces = {f"subwords.{side}.model": learn_sentencepiece(LINES, 300) for side in ("source", "target")}
    separate = make_pipeline("sentencepiece", ("en", "de"), False, pieces)
    write_model_folder(tmp_path / "separate", plain(separate), separate, "Made by a test.")
    text = pipeline("source")
    write_model_folder(tmp_path / "codes", plain(text), text, "Made by a test.")
    out = tmp_path / "a.argosmodel"
    assert run_lamina("export", tmp_path / "documents", "--to", "argos", "--out", out) == (
        2,
        "",
        "lamina: Argos Translate does not support `prepare --sentences` (it translates sentences separately). "
        "ONNX does: `lamina export --to onnx`.\n",
    )
    assert run_lamina("export", tmp_path / "msc", "--to", "argos", "--out", out) == (
        2,
        "",
        "lamina: Argos Translate does not support encoder `msc` (only `stack`) or bridge `collaborative` (only `top`). "
        "ONNX does: `lamina export --to onnx`.\n",
    )
    assert run_lamina("export", tmp_path / "words", "--to", "argos", "--out", out) == (
        2,
        "",
        "lamina: Argos Translate does not support subwords `none` (only SentencePiece, one model for both languages). "
        "CTranslate2 does: `lamina export --to ctranslate2`.\n",
    )
    assert run_lamina("export", tmp_path / "separate", "--to", "argos", "--out", out) == (
        2,
        "",
        "lamina: Argos Translate does not support separate vocabularies (only SentencePiece, one model for both "
        "languages). CTranslate2 does: `lamina export --to ctranslate2`.\n",
    )
    assert run_lamina("export", tmp_path / "codes", "--to", "argos", "--out", out) == (
        2,
        "",
        "lamina: Argos Translate needs language codes of two or three letters, but one is `source`. "
        "Set them with `lamina prepare --langs`.\n",
    )
    assert run_lamina("export", tmp_path / "codes", "--to", "argos", "--out", tmp_path / "a") == (
        2,
        "",
        f"lamina: --out must be a file that ends in .argosmodel, but is {tmp_path / 'a'} instead.\n",
    )
