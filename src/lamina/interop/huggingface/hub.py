"""Upload of models to the Hugging Face Hub, with metadata in the model card."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import yaml

from lamina.errors import DataError, MissingExtraError
from lamina.store.hub import check_repository, first_line
from lamina.store.loading import find_model_folder
from lamina.store.model_files import CARD, CONFIG, read_config_file
from lamina.store.model_folder import load_model_folder, model_card
from lamina.store.onnx_folder import is_onnx_folder
from lamina.text.pipeline import DESCRIPTION


def push_model(path: Path, repository: str, license_id: str, metrics: Path | None, private: bool) -> str:
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


def write_hub_folder(path: Path, out: Path, repository: str, license_id: str, scores: list[dict[str, Any]]) -> None:
    """Copy a folder and add metadata to its model card, unless the card already has some."""
    exported = is_export(path)
    folder = path if exported else find_model_folder(path)
    origin = "" if exported else model_card(load_model_folder(folder).model, read_origin(folder))
    shutil.copytree(folder, out, ignore=shutil.ignore_patterns("training_state.pt", "*.partial"))
    card = out / CARD
    before = card.read_text(encoding="utf-8") if card.is_file() else origin
    if not before.startswith("---"):
        metadata = yaml.safe_dump(
            describe_metadata(folder, repository, license_id, scores), sort_keys=False, allow_unicode=True
        )
        usage = "" if exported else usage_text(repository)
        card.write_text(f"---\n{metadata}---\n{before}{usage}{data_line(folder)}", encoding="utf-8")


def is_export(folder: Path) -> bool:
    """Whether this is an export for another engine, whose files are uploaded unchanged."""
    if is_onnx_folder(folder) or (folder / "model.bin").is_file():
        return True
    return (folder / CONFIG).is_file() and (folder / "tokenizer.json").is_file()


def describe_metadata(folder: Path, repository: str, license_id: str, scores: list[dict[str, Any]]) -> dict[str, Any]:
    """Metadata for the Hub's listing and search."""
    metadata: dict[str, Any] = {"library_name": "lamina", "pipeline_tag": "translation", "license": license_id}
    if (folder / DESCRIPTION).is_file():
        languages = json.loads((folder / DESCRIPTION).read_text(encoding="utf-8"))["languages"]
        metadata["language"] = [language for language in languages if len(language) in (2, 3)]
    if not is_export(folder):
        model = read_config_file(folder / CONFIG)["model"]
        metadata["tags"] = sorted({"lamina", *(model[socket]["type"] for socket in ("encoder", "bridge", "head"))})
    if scores:
        task = {"type": "translation"}
        results = [{"type": each["name"].lower(), "value": round(each["score"], 2)} for each in scores]
        result = {"task": task, "dataset": {"name": "test set", "type": "unknown"}, "metrics": results}
        metadata["model-index"] = [{"name": repository.split("/")[1], "results": [result]}]
    return metadata


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
