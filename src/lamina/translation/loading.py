"""Load translators from runs, checkpoints, model folders and ONNX exports."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lamina.base.arguments import DEVICES, check_choice, check_counts
from lamina.base.devices import choose_device, uses_cpu
from lamina.base.threads import set_threads
from lamina.errors import DataError, UsageError
from lamina.recipe.decode import SearchSettings
from lamina.search.shortlist import Shortlist, load_shortlist
from lamina.store.hub import fetch
from lamina.store.loading import find_model_folder
from lamina.store.model_files import CONFIG, ModelFiles, open_model_folder, read_config_file
from lamina.store.onnx_folder import is_onnx_folder
from lamina.text.pipeline import TextPipeline
from lamina.text.vocabulary import EOS, UNK
from lamina.translation.backends import EngineBackend
from lamina.translation.translator import Translator

if TYPE_CHECKING:
    from lamina.model.seq2seq import Seq2Seq

TRIAL_SOURCES = [[*[UNK] * 10, EOS]] * 4
TRIAL = SearchSettings(min_length=8, max_length=(0.0, 8))


def load(
    run: str | os.PathLike[str],
    *others: str | os.PathLike[str],
    checkpoint: str | int = "best",
    device: str = "auto",
    threads: int | None = None,
    int8: bool = False,
    shortlist: str | os.PathLike[str] | None = None,
) -> Translator:
    """A translator from a run, a checkpoint or a model folder; from several, an ensemble."""
    check_choice("device", device, DEVICES)
    check_counts(threads=threads)
    if threads is not None:
        set_threads(threads)
    folders = [fetch(each) for each in (run, *others)]
    exported = [folder for folder in folders if is_onnx_folder(folder)]
    if exported and shortlist is not None:
        raise UsageError(f"{exported[0]}: is an ONNX export, whose vocabulary is fixed; omit the shortlist.")
    if exported and checkpoint != "best":
        raise UsageError(f"{exported[0]}: is an ONNX export, which has no other checkpoints; omit the checkpoint.")
    if exported:
        return load_onnx(exported[0], alone=not others, device=device, int8=int8)
    on_cpu = uses_cpu(device)
    files = [open_model_folder(find_model_folder(folder, checkpoint)) for folder in folders]
    text = files[0].text
    for other, each in zip(others, files[1:], strict=True):
        if other_vocabulary(text, each.text):
            raise DataError(f"{other}: its vocabulary differs from that of {run}; an ensemble needs one vocabulary.")
    table = None if shortlist is None else load_shortlist(Path(shortlist), text)
    if on_cpu:
        return load_for_cpu(files, int8, table)
    return Translator(load_models(files, device), text, files[0].decode, int8=int8, shortlist=table)


def load_for_cpu(files: Sequence[ModelFiles], int8: bool, shortlist: Shortlist | None) -> Translator:
    """Load from the cache of lowered models, without torch; on a miss, load, lower and cache the models."""
    from lamina.engine import cache

    identities = [each.identity for each in files]
    entry = cache.entry_path([each for each in identities if each], int8) if all(identities) else None
    found = None if entry is None else cache.read_entry(entry)
    if found is not None:
        engine, notes = found
        for each in files:
            each.check_vocabularies(engine.source_vocabulary, engine.vocabulary)
        backend = EngineBackend(engine, shortlist)
        translator = Translator(
            [], files[0].text, files[0].decode, backend=backend, load_models=lambda: load_models(files, "cpu")
        )
        translator.notes += notes
        return translator
    models = load_models(files, "cpu")
    translator = Translator(models, files[0].text, files[0].decode, int8=int8, shortlist=shortlist)
    if int8 and (ratio := int8_ratio(translator)) > 1:
        translator.notes.append(f"int8 takes {ratio:.2f}× as long here; omit it.")
    if entry is not None and isinstance(translator.backend, EngineBackend):
        cache.write_entry(entry, translator.backend.engine, translator.notes)
    return translator


def load_models(files: Sequence[ModelFiles], device: str) -> list[Seq2Seq]:
    """Load the torch models in evaluation mode."""
    from lamina.store.model_folder import load_model

    target_device = choose_device(device)
    require_unchanged(files)
    models = [load_model(each).model.to(target_device).eval() for each in files]
    require_unchanged(files)
    return models


def require_unchanged(files: Sequence[ModelFiles]) -> None:
    """Raise if a model folder was replaced after its digests were checked."""
    for each in files:
        if read_config_file(each.folder / CONFIG) != each.config:
            raise DataError(f"{each.folder}: was replaced by another model while in use; load it again.")


def load_onnx(folder: Path, alone: bool, device: str, int8: bool) -> Translator:
    """Load a translator from the output of `lamina export --to onnx`."""
    from lamina.translation.onnx import OnnxBackend

    if not alone:
        raise UsageError(f"{folder}: is an ONNX export, which cannot be part of an ensemble; use the run instead.")
    if device == "cuda":
        raise UsageError(f"{folder}: is an ONNX export, which Lamina runs only on a CPU; use device `cpu`.")
    if int8:
        raise UsageError(f"{folder}: is an ONNX export; to run it in 8 bits, export it with `lamina export --int8`.")
    backend = OnnxBackend(folder)
    return Translator([], TextPipeline.load(folder), backend.description.decode, backend=backend)


def int8_ratio(translator: Translator) -> float:
    """Measure the decoding time of int8 relative to fp32 on a few short sources."""
    from lamina.engine.compilation import make_engine

    assert isinstance(translator.backend, EngineBackend)
    engines = [make_engine(translator.models), translator.backend.engine]
    seconds: list[list[float]] = [[], []]
    for _ in range(4):  # the first is a warm-up
        for engine, taken in zip(engines, seconds, strict=True):
            started = time.perf_counter()
            engine.search(TRIAL_SOURCES, TRIAL)
            taken.append(time.perf_counter() - started)
    float32, int8 = (statistics.median(taken[1:]) for taken in seconds)
    return int8 / float32


def other_vocabulary(one: TextPipeline, other: TextPipeline) -> bool:
    """Whether two pipelines number their subwords differently."""
    return one.source.vocabulary != other.source.vocabulary or one.target.vocabulary != other.target.vocabulary
