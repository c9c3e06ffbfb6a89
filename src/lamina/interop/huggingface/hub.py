"""Upload of models to the Hugging Face Hub, with metadata in the model card."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import yaml

from lamina.base.reading import read_json
from lamina.errors import DataError, MissingExtraError
from lamina.store.hub import check_repository, first_line
from lamina.store.loading import find_model_folder
from lamina.store.model_files import CARD, CONFIG, read_config_file
from lamina.store.model_folder import load_model_folder, model_card
from lamina.store.onnx_folder import is_onnx_folder, read_description
from lamina.text.pipeline import DESCRIPTION

LIBRARIES = {None: "lamina", "onnx": "lamina", "ctranslate2": "ctranslate2", "huggingface": "transformers"}


def push_model(path: Path, repository: str, license_id: str | None, metrics: Path | None, private: bool) -> str:
    """Upload a run's model, or a folder written by `lamina export`; return its URL."""
    check_repository(repository)
    scores = [] if metrics is None else read_metrics(metrics)
    try:
        from huggingface_hub import HfApi
    except ImportError as error:
        raise MissingExtraError("lamina push", "hub") from error
    with tempfile.TemporaryDirectory() as scratch:
        staged = Path(scratch) / "model"
        write_hub_folder(path, staged, repository, license_id, scores)
        api = HfApi()
        try:
            address = api.create_repo(repository, private=private, exist_ok=True)
            api.upload_folder(repo_id=repository, folder_path=staged, commit_message="Upload with Lamina")
        except Exception as error:  # errors of the library, HTTP or the system
            raise DataError(f"{repository}: cannot be uploaded ({first_line(error)}).") from error
    return str(address)


def write_hub_folder(
    path: Path, out: Path, repository: str, license_id: str | None, scores: list[dict[str, Any]]
) -> None:
    """Copy a folder and complete the metadata of its model card; those in the card win over those inferred."""
    form = export_format(path)
    folder = path if form else find_model_folder(path)
    origin = "" if form else model_card(load_model_folder(folder).model, read_origin(folder))
    if form == "onnx":
        read_description(folder)  # verifies the files
    shutil.copytree(folder, out, ignore=shutil.ignore_patterns("training_state.pt", "*.partial"))
    card = out / CARD
    before = card.read_text(encoding="utf-8") if card.is_file() else origin
    present, body = split_card(before, folder / CARD)
    if body == before:
        body += (usage_text(repository) if LIBRARIES[form] == "lamina" else "") + data_line(folder)
    metadata = {**describe_metadata(folder, form), **present}
    if license_id is not None:
        metadata["license"] = license_id
    if scores:
        metadata["model-index"] = [describe_scores(repository, scores)]
    front = yaml.safe_dump(metadata, sort_keys=False, allow_unicode=True)
    card.write_text(f"---\n{front}---\n{body}", encoding="utf-8")


def export_format(folder: Path) -> str | None:
    """Format of an export, whose files are uploaded unchanged; None for Lamina's own models."""
    if is_onnx_folder(folder):
        return "onnx"
    if (folder / "model.bin").is_file():
        return "ctranslate2"
    if (folder / CONFIG).is_file() and (folder / "tokenizer_config.json").is_file():
        return "huggingface"
    return None


def split_card(card: str, path: Path) -> tuple[dict[str, Any], str]:
    """Split a model card into its metadata, which may be absent, and its text."""
    if not card.startswith("---\n"):
        return {}, card
    front, _, body = card.removeprefix("---\n").partition("\n---\n")
    try:
        return dict(yaml.safe_load(front) or {}), body
    except (yaml.YAMLError, TypeError, ValueError) as error:
        raise DataError(f"{path}: its metadata is not a YAML mapping.") from error


def describe_metadata(folder: Path, form: str | None) -> dict[str, Any]:
    """Metadata for the Hub's listing and search."""
    metadata: dict[str, Any] = {"library_name": LIBRARIES[form], "pipeline_tag": "translation", "license": "other"}
    if (folder / DESCRIPTION).is_file():
        languages = read_json(folder / DESCRIPTION)["languages"]
        metadata["language"] = [language for language in languages if len(language) in (2, 3)]
    if form == "onnx":
        metadata["tags"] = ["lamina", "onnx"]
    elif form is None:
        model = read_config_file(folder / CONFIG)["model"]
        metadata["tags"] = sorted({"lamina", *(model[socket]["type"] for socket in ("encoder", "bridge", "head"))})
    return metadata


def describe_scores(repository: str, scores: list[dict[str, Any]]) -> dict[str, Any]:
    """Entry of the Hub's `model-index`."""
    results = [{"type": each["name"].lower(), "value": round(each["score"], 2)} for each in scores]
    dataset = {"name": "test set", "type": "unknown"}
    result = {"task": {"type": "translation"}, "dataset": dataset, "metrics": results}
    return {"name": repository.split("/")[1], "results": [result]}


def read_origin(folder: Path) -> str:
    """Paragraph of the model card that describes the model's origin."""
    try:
        paragraphs = (folder / CARD).read_text(encoding="utf-8").split("\n\n")
    except OSError:
        return ""
    return paragraphs[1] if len(paragraphs) > 1 else ""


def data_line(folder: Path) -> str:
    """Line with the digest of the training data, if known."""
    for run in (folder.parent, folder.parent.parent):
        if (run / "run.json").is_file():
            digest = json.loads((run / "run.json").read_text(encoding="utf-8")).get("data")
            return f"\nTraining data (SHA-256 of its `meta.json`): `{digest}`\n"
    return ""


def usage_text(repository: str) -> str:
    """Usage example for the model card."""
    return f"""
```python
import lamina  # pip install 'lamina[hub]'

translator = lamina.load("hf:{repository}")
print(translator.translate("A man plays the guitar.").text)
```
"""


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Read the output of `lamina eval --json`."""
    try:
        scores = json.loads(path.read_bytes())
        return [{"name": str(each["name"]), "score": float(each["score"])} for each in scores]
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from error
    except (ValueError, TypeError, KeyError) as error:
        raise DataError(f"{path}: must be the output of `lamina eval --json`.") from error
