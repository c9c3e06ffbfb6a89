"""Lamina: sequence-to-sequence models whose decoder can read every encoder layer, not just the last.

Importing this module does not import torch; calling one of its functions does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lamina.version import __version__

if TYPE_CHECKING:
    import os

    from lamina.model.seq2seq import Seq2Seq
    from lamina.text.vocabulary import Vocabularies
    from lamina.translation import Translator

__all__ = ["__version__", "build", "load", "load_fairseq"]


def build(system: str | None = None, *, vocab_size: int | tuple[int, int], size: str = "base", **model: Any) -> Seq2Seq:
    """Build a model with fresh weights: a published system, your own choice of sockets, or a mixture.

    `model` takes the keys of a recipe's `model`, each overriding what `size` and `system` say:

        lamina.build("msc", size="small", vocab_size=10000, encoder={"layers": 36}, head={"type": "surface"})
    """
    from lamina.systems.build import build as build_model

    return build_model(system, vocab_size=vocab_size, size=size, **model)


def load(
    run: str | os.PathLike[str],
    *others: str | os.PathLike[str],
    checkpoint: str | int = "best",
    device: str = "auto",
    threads: int | None = None,
    int8: bool = False,
    shortlist: str | os.PathLike[str] | None = None,
) -> Translator:
    """Load a run, a checkpoint or a model folder for translation; several are an ensemble.

    The result translates text:

        translator = lamina.load("runs/x")
        translator.translate(["A dog runs."], beam=5)[0].text
    """
    from lamina.translation import load as load_translator

    return load_translator(
        run, *others, checkpoint=checkpoint, device=device, threads=threads, int8=int8, shortlist=shortlist
    )


def load_fairseq(
    checkpoint: str | os.PathLike[str],
    source_dictionary: str | os.PathLike[str],
    target_dictionary: str | os.PathLike[str],
) -> tuple[Seq2Seq, Vocabularies]:
    """Load a checkpoint of fairseq 0.9 or of the SurfaceFusion release, without executing what it pickles.

    Nothing is written to disk:

        model, vocabulary = lamina.load_fairseq("checkpoint_best.pt", "dict.en.txt", "dict.ro.txt")
    """
    from pathlib import Path

    from lamina.interop.fairseq import load_checkpoint

    return load_checkpoint(Path(checkpoint), Path(source_dictionary), Path(target_dictionary))
