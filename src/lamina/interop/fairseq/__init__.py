"""Import of checkpoints of fairseq 0.9 and of the SurfaceFusion release.

A checkpoint is a pickle. It is read with torch's restricted loader, which allows tensors, plain containers and
`argparse.Namespace`. Pickled training meters become inert objects; anything else is rejected without being executed.
"""

from __future__ import annotations

import argparse
import pickle
import re
import warnings
from pathlib import Path
from typing import Any

import torch

from lamina.base.reading import damage_named
from lamina.errors import DataError
from lamina.interop.fairseq.arguments import read_arguments
from lamina.interop.fairseq.dictionary import check_dictionaries, read_dictionary
from lamina.interop.fairseq.weights import check_rows, take_weights
from lamina.model.seq2seq import Seq2Seq
from lamina.store.model_folder import assign_weights
from lamina.text.vocabulary import Vocabularies


class InertMeter:
    """Placeholder for a pickled training meter."""


METERS = [
    (InertMeter, f"fairseq.{module}.{name}")
    for module in ("meters", "logging.meters")
    for name in ("AverageMeter", "TimeMeter", "StopwatchMeter")
]
REFUSED = re.compile(r"(?:Unsupported global: GLOBAL|Unsupported class|GLOBAL) ([\w.]+)")


def load_checkpoint(checkpoint: Path, source_dictionary: Path, target_dictionary: Path) -> tuple[Seq2Seq, Vocabularies]:
    """Load a model in evaluation mode and its vocabularies."""
    vocabularies = Vocabularies(read_dictionary(source_dictionary), read_dictionary(target_dictionary))
    arguments, weights = read_checkpoint(checkpoint)
    embeddings = {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight"}
    check_rows(weights, sorted(embeddings & weights.keys()), str(checkpoint))
    with damage_named(checkpoint):
        check_dictionaries(arguments, weights, vocabularies, (source_dictionary, target_dictionary))
        config = read_arguments(arguments, vocabularies, str(checkpoint))
    model = Seq2Seq(config)
    assign_weights(model, take_weights(model, weights, arguments, str(checkpoint)), str(checkpoint))
    return model.eval(), vocabularies


def read_checkpoint(path: Path) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """Read the command-line arguments and the weights."""
    try:
        with torch.serialization.safe_globals([argparse.Namespace, *METERS]), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            content = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError as error:
        raise DataError(f"{path}: not found.") from error
    except Exception as error:  # damaged files raise various errors
        refused = REFUSED.search(str(error)) if isinstance(error, pickle.UnpicklingError) else None
        if refused is None:
            raise DataError(f"{path}: not a checkpoint that torch can load ({type(error).__name__}).") from error
        raise DataError(
            f"{path}: contains a pickled `{refused[1]}`, which was not loaded because it could execute code."
        ) from error
    found = content if isinstance(content, dict) else {}
    for name, kind in (("args", argparse.Namespace), ("model", dict)):
        if not isinstance(found.get(name), kind):
            raise DataError(f"{path}: not a checkpoint of fairseq 0.9: it has no `{name}`.")
    return dict(vars(found["args"])), found["model"]
