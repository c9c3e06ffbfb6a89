"""A model folder without its weights: format, digests, text pipeline and search settings. Does not need torch."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from lamina.base.files import digest
from lamina.base.problems import describe_errors
from lamina.base.reading import read_sealed_json
from lamina.base.settings import Settings
from lamina.errors import DataError, UsageError
from lamina.recipe.decode import SearchSettings
from lamina.text.pipeline import TextPipeline

FORMAT = 2  # 1 had different weight names and no digests
CONFIG, WEIGHTS, CARD = "config.json", "model.safetensors", "README.md"

AnySettings = TypeVar("AnySettings", bound=Settings)


@dataclass(frozen=True)
class ModelFiles:
    """A model folder whose files match their digests."""

    folder: Path
    config: Mapping[str, Any]  # the content of `config.json`
    text: TextPipeline
    decode: SearchSettings  # of its recipe

    @property
    def identity(self) -> str | None:
        """A digest of the configuration, which contains those of all files; None if it lacks that of the weights."""
        if WEIGHTS not in self.config["sha256"]:
            return None
        return hashlib.sha256(json.dumps(self.config, sort_keys=True).encode()).hexdigest()

    def check_vocabularies(self, source: int, target: int) -> None:
        """Raise unless the vocabularies of the text pipeline have the model's sizes."""
        for side, language, entries in (("source", self.text.source, source), ("target", self.text.target, target)):
            if len(language.vocabulary) != entries:
                raise DataError(
                    f"{self.folder}: the {side} vocabulary must have {entries:,} entries to match the model, "
                    f"but has {len(language.vocabulary):,} instead."
                )


def open_model_folder(folder: Path) -> ModelFiles:
    """Open a folder and verify its files against their digests."""
    config = read_config_file(folder / CONFIG)
    decode = parse_settings(SearchSettings, config.get("decode"), folder / CONFIG)
    damage = find_damage(folder, config)
    if damage is not None:
        raise DataError(f"{damage}.")
    return ModelFiles(folder, config, TextPipeline.load(folder), decode)


def is_model_folder(folder: Path) -> bool:
    """Whether this is a model folder, complete or not."""
    return (folder / CONFIG).is_file()


def check_replaceable(folder: Path) -> None:
    """Raise unless this is a new folder, an empty one, or a model folder without other files, which may be replaced."""
    if not folder.name:
        raise UsageError(f"{folder}: choose a new folder.")
    if folder.is_dir() and not folder.is_symlink():
        own: set[str] = set()
        with suppress(DataError):
            own = {CONFIG, CARD, *read_config_file(folder / CONFIG)["sha256"]}
        if all(path.name in own for path in folder.iterdir()):
            return
    elif not folder.exists() and not folder.is_symlink():
        return
    content = " and contains files other than a model's" if folder.is_dir() else ""
    raise UsageError(f"{folder}: already exists{content}. Choose another folder.")


def find_damage(folder: Path, config: Mapping[str, Any]) -> str | None:
    """A description of the first file that is missing or does not match its digest, if any."""
    for name, expected in config["sha256"].items():
        path = folder / name
        try:
            if digest(path) != expected:
                return f"{path}: damaged (SHA-256 does not match {CONFIG})"
        except FileNotFoundError:
            return f"{path}: not found, but {CONFIG} lists it"
        except OSError as error:
            return f"{path}: cannot be read ({error.strerror})"
    return None


def read_config_file(path: Path) -> dict[str, Any]:
    """Read `config.json` and check its format."""
    if not path.exists():
        raise DataError(f"{path}: not found; {path.parent} is not a model folder.")
    content = read_sealed_json(path)
    found = content.get("format")
    if found != FORMAT:
        if (path.parent / "model.bin").is_file():
            raise DataError(f"{path.parent}: is a CTranslate2 model; open it with ctranslate2.Translator.")
        if isinstance(content, dict) and "model_type" in content:
            kind = content["model_type"]
            hint = "; `lamina import-marian` turns it into a model folder" if kind == "marian" else ""
            raise DataError(f"{path.parent}: is a model for Hugging Face Transformers ({kind}){hint}.")
        older = " It was written before Lamina 0.2; train or import the model again." if found == 1 else ""
        raise DataError(f"{path}: format must be {FORMAT}, but is {found} instead.{older}")
    digests = content.get("sha256")
    if not isinstance(digests, dict) or any(Path(name).name != name for name in digests):
        raise DataError(f"{path}: `sha256` must map the names of the folder's files to their digests.")
    return content


def parse_settings(kind: type[AnySettings], content: Any, path: Path) -> AnySettings:
    """Parse a part of a model's configuration; report all problems at once."""
    try:
        return kind.model_validate_json(json.dumps(content))
    except ValidationError as error:
        raise DataError("\n".join(f"{path}: {problem}" for problem in describe_errors(error, kind, content))) from error
