"""Export to Argos Translate, the engine of LibreTranslate: an archive with a CTranslate2 model and its subwords."""

from __future__ import annotations

import json
import tempfile
import zipfile
from pathlib import Path

from lamina.base.files import atomic_file, require_absent
from lamina.errors import DataError, UsageError
from lamina.interop.ctranslate2 import export_ctranslate2, find_misfits, refuse
from lamina.model.seq2seq import Seq2Seq
from lamina.names import option
from lamina.text.pipeline import TextPipeline
from lamina.version import __version__

SUFFIX = ".argosmodel"
PIECES = "subwords.model"  # SentencePiece model shared by both languages
NAMES = {
    "ar": "Arabic",
    "bg": "Bulgarian",
    "ca": "Catalan",
    "cs": "Czech",
    "da": "Danish",
    "de": "German",
    "el": "Greek",
    "en": "English",
    "eo": "Esperanto",
    "es": "Spanish",
    "et": "Estonian",
    "eu": "Basque",
    "fa": "Persian",
    "fi": "Finnish",
    "fr": "French",
    "ga": "Irish",
    "gl": "Galician",
    "he": "Hebrew",
    "hi": "Hindi",
    "hr": "Croatian",
    "hu": "Hungarian",
    "id": "Indonesian",
    "is": "Icelandic",
    "it": "Italian",
    "ja": "Japanese",
    "ko": "Korean",
    "lt": "Lithuanian",
    "lv": "Latvian",
    "mt": "Maltese",
    "nl": "Dutch",
    "no": "Norwegian",
    "pl": "Polish",
    "pt": "Portuguese",
    "ro": "Romanian",
    "ru": "Russian",
    "sk": "Slovak",
    "sl": "Slovenian",
    "sv": "Swedish",
    "th": "Thai",
    "tr": "Turkish",
    "uk": "Ukrainian",
    "vi": "Vietnamese",
    "zh": "Chinese",
}


def export_argos(model: Seq2Seq, text: TextPipeline, out: Path, int8: bool = False) -> None:
    """Write an `.argosmodel` for `argospm install` and LibreTranslate."""
    if out.suffix != SUFFIX:
        raise UsageError(f"{option('out')} must be a file that ends in {SUFFIX}, but is {out} instead.")
    sentences = ["`prepare --sentences` (it translates sentences separately)"] if text.source.sentences else []
    refuse("Argos Translate", [*find_misfits(model.config), *sentences])
    if PIECES not in text.files or text.source.tokeniser is not None:
        found = "separate vocabularies" if text.kind == "sentencepiece" else f"subwords `{text.kind}`"
        raise UsageError(
            f"Argos Translate does not support {found} (only SentencePiece, one model for both languages). "
            "CTranslate2 does: `lamina export --to ctranslate2`."
        )
    codes = (text.source.language, text.target.language)
    for code in codes:
        if not 2 <= len(code) <= 3:
            raise UsageError(
                f"Argos Translate needs language codes of two or three letters, but one is `{code}`. "
                "Set them with `lamina prepare --langs`."
            )
    require_absent(out)
    name = f"translate-{codes[0]}_{codes[1]}-1_0"
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "model"
        export_ctranslate2(model, text, folder, int8)
        names = {path: f"model/{path.name}" for path in sorted(folder.iterdir()) if path.suffix in (".bin", ".json")}
        try:
            out.parent.mkdir(parents=True, exist_ok=True)
            with atomic_file(out) as stream, zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
                for path, inside in names.items():
                    archive.write(path, f"{name}/{inside}")
                archive.writestr(f"{name}/sentencepiece.model", text.files[PIECES])
                archive.writestr(f"{name}/metadata.json", json.dumps(describe_package(*codes), indent=4))
                archive.writestr(
                    f"{name}/README.md", f"# {codes[0]} → {codes[1]}\n\nWritten by Lamina {__version__}.\n"
                )
        except OSError as error:
            raise DataError(f"{out}: cannot be written ({error.strerror}).") from error


def describe_package(source: str, target: str) -> dict[str, object]:
    """Content of `metadata.json`."""
    return {
        "package_version": "1.0",
        "argos_version": "1.9.0",
        "from_code": source,
        "from_name": NAMES.get(source, source),
        "to_code": target,
        "to_name": NAMES.get(target, target),
    }
