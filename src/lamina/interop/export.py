"""Export of a run to another engine's format."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args

from lamina.base.files import StrPath
from lamina.errors import UsageError
from lamina.names import option
from lamina.store.loading import load_run

Format = Literal["ctranslate2", "onnx", "huggingface", "argos"]
FORMATS: tuple[Format, ...] = get_args(Format)


def export_run(run: StrPath, to: Format, out: Path, checkpoint: str | int = "best", int8: bool = False) -> None:
    """Write a run, a checkpoint or a model folder in another format; `out` must not exist yet."""
    if int8 and to == "huggingface":
        others = f"{option('to', 'onnx')} or {option('to', 'ctranslate2')}"
        raise UsageError(f"{option('int8')}: `transformers` quantises models when it loads them; use {others}.")
    loaded = load_run(run, checkpoint)
    if to == "onnx":
        from lamina.interop.onnx import export_onnx

        export_onnx(loaded.model, loaded.text, loaded.decode, out, int8)
    elif to == "huggingface":
        from lamina.interop.huggingface import export_huggingface

        export_huggingface(loaded.model, loaded.text, loaded.decode, out)
    elif to == "argos":
        from lamina.interop.argos import export_argos

        export_argos(loaded.model, loaded.text, out, int8)
    else:
        from lamina.interop.ctranslate2 import export_ctranslate2

        export_ctranslate2(loaded.model, loaded.text, out, int8)
