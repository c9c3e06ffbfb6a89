"""`lamina.build`, `load`, `save`, `average`, `export` and `load_fairseq`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from lamina.base.files import StrPath
    from lamina.corpus.prepared import PreparedData
    from lamina.model.seq2seq import Seq2Seq
    from lamina.recipe.options import SearchOptions
    from lamina.text.pipeline import TextPipeline
    from lamina.text.vocabulary import Vocabularies
    from lamina.translation import Translator


def build(system: str | None = None, *, vocab_size: int | tuple[int, int], size: str = "base", **model: Any) -> Seq2Seq:
    """Build an untrained model: a published system, your own choice of encoder, bridge and head, or a mixture.

    `size` is `tiny`, `small`, `iwslt`, `base` or `big`. `model` takes the keys of a recipe's `model`, which override
    `size` and `system`. The result is a `torch.nn.Module`; `vocab_size` is one number for both sides, or
    `(source, target)`.

    Example:
        >>> model = lamina.build("msc", size="tiny", vocab_size=1000, encoder={"layers": 8}, head={"type": "surface"})
        >>> source, prefix = torch.tensor([[17, 23, 42, 2]]), torch.tensor([[0, 99, 7]])
        >>> model.log_probs(source, prefix).shape
        torch.Size([1, 3, 1000])
    """
    from lamina.systems.build import build as build_model

    return build_model(system, vocab_size=vocab_size, size=size, **model)


def load(
    run: StrPath,
    *others: StrPath,
    checkpoint: str | int = "best",
    device: Literal["auto", "cpu", "cuda"] = "auto",
    threads: int | None = None,
    int8: bool = False,
    shortlist: StrPath | None = None,
) -> Translator:
    """Load a run, a checkpoint or a model folder for translation; several form an ensemble.

    `checkpoint` selects a run's checkpoint: `"best"` by validation, `"last"` or a step. `hf:OWNER/NAME` loads a
    model from the Hugging Face Hub. The other arguments are the options of `lamina translate`.

    Example:
        >>> translator = lamina.load("runs/first")
        >>> translation = translator.translate("A dog runs.")
        >>> translation.text
        '...'
    """
    from lamina.base.arguments import check_path
    from lamina.translation import load as load_translator

    for each in (run, *others):
        check_path("run", each, "a path; for an ensemble, give several arguments")
    return load_translator(
        run, *others, checkpoint=checkpoint, device=device, threads=threads, int8=int8, shortlist=shortlist
    )


def save(
    model: Seq2Seq,
    text: PreparedData | TextPipeline | Vocabularies | StrPath,
    out: StrPath,
    *,
    decode: SearchOptions | None = None,
    description: str = "Written by lamina.save.",
) -> str:
    """Save a model, for example from your own training loop, as a model folder.

    `lamina.load` and the commands that take a model can open the folder. If `out` is a model folder already, it is
    replaced; any other existing folder or file is left alone, with an error.

    `text` provides the text pipeline: prepared data, a data folder, a run or a model folder; or two vocabularies, if
    text is already split into their entries. `decode` sets the default search options. Returns the folder.

    Example:
        >>> data = lamina.PreparedData("data")
        >>> model = lamina.build("transformer", size="tiny", vocab_size=len(data.text.source.vocabulary))
        >>> folder = lamina.save(model, data, "mine", decode={"beam": 2})
        >>> lamina.load(folder).settings.beam
        2
    """
    import os
    from pathlib import Path

    from lamina.base.arguments import check_mapping, check_path
    from lamina.errors import UsageError
    from lamina.model.config import ModelConfig
    from lamina.recipe.decode import SearchSettings
    from lamina.store.model_files import ModelFiles, check_replaceable
    from lamina.store.model_folder import write_model_folder
    from lamina.text.pipeline import as_pipeline

    if not isinstance(getattr(model, "config", None), ModelConfig):
        hint = " Pass its `module`." if hasattr(model, "module") else ""
        raise UsageError(f"model must be one of Lamina's, but is a {type(model).__name__} instead.{hint}")
    check_mapping("decode", decode, "{'beam': 4}")
    check_path("out", out, "the path of a new folder")
    check_replaceable(Path(out))
    pipeline = as_pipeline(text.text if hasattr(text, "text") else text)
    settings = SearchSettings().with_options(**(decode or {}))
    ModelFiles(Path(out), {}, pipeline, settings).check_vocabularies(
        model.config.source_vocab, model.config.target_vocab
    )
    write_model_folder(Path(out), model, pipeline, description, settings)
    return os.fspath(out)


def average(run: StrPath, *, last: int | None = None, steps: Sequence[int] | None = None) -> str:
    """Average a run's checkpoints, the `last` K or those of `steps`, like `lamina average`.

    Returns the folder of the averaged model, `averaged` in the run.

    Example:
        >>> folder = lamina.average("runs/first", last=2)
        >>> folder
        'runs/first/averaged'
        >>> lamina.load(folder).translate("A dog runs.")
        Translation('...', score=-...)
    """
    import os
    from pathlib import Path

    from lamina.base.arguments import as_list, check_counts, check_path, reject
    from lamina.training.averaging import average as average_checkpoints

    check_path("run", run, "the path of a run, or a Run")
    check_counts(last=last)
    chosen = None if steps is None else as_list(steps)
    if not all(isinstance(step, int) for step in chosen or ()):
        reject("steps", "a list of whole numbers", steps)
    return os.fspath(average_checkpoints(Path(run), last=last, steps=chosen)[0])


def export(
    run: StrPath,
    to: Literal["ctranslate2", "onnx", "huggingface", "argos"],
    out: StrPath,
    *,
    checkpoint: str | int = "best",
    int8: bool = False,
) -> str:
    """Export a model for another engine, like `lamina export`; `out` must not exist yet. Returns it.

    ONNX supports every system. If a format does not support a part of a model, the error names the part and a format
    that does.

    Example:
        >>> lamina.export("runs/first", "onnx", "first-onnx")
        'first-onnx'
        >>> lamina.load("first-onnx").translate("A dog runs.")
        Translation('...', score=-...)
    """
    import os
    from pathlib import Path

    from lamina.base.arguments import check_choice, check_path
    from lamina.interop.export import FORMATS, export_run

    check_path("run", run, "the path of a run or model, or a Run")
    check_path("out", out, "the path of a new folder (argos: file)")
    check_choice("to", to, FORMATS)
    export_run(run, to, Path(out), checkpoint, int8)
    return os.fspath(out)


def load_fairseq(
    checkpoint: StrPath, source_dictionary: StrPath, target_dictionary: StrPath
) -> tuple[Seq2Seq, Vocabularies]:
    """Load a checkpoint of fairseq 0.9 or of the SurfaceFusion release, without executing pickled code.

    Nothing is written to disk; `lamina.save(model, vocabularies, out)` saves the model as a model folder.

    Example:
        >>> model, vocabularies = lamina.load_fairseq("checkpoint_best.pt", "dict.en.txt", "dict.ro.txt")
        >>> model.config.target_vocab == len(vocabularies.target)
        True
    """
    from pathlib import Path

    from lamina.interop.fairseq import load_checkpoint

    return load_checkpoint(Path(checkpoint), Path(source_dictionary), Path(target_dictionary))
