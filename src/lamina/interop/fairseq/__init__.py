"""Checkpoints of fairseq 0.9 and of the SurfaceFusion release.

A checkpoint is a pickle. It is read with torch's restricted loader, which builds tensors and plain containers and
one class, `argparse.Namespace`; anything else in it is refused, not executed.
"""

from __future__ import annotations

import argparse
import pickle
import warnings
from pathlib import Path
from typing import Any

import torch

from lamina.errors import DataError
from lamina.interop.fairseq.arguments import read_arguments
from lamina.interop.fairseq.dictionary import read_dictionary
from lamina.interop.fairseq.weights import take_weights
from lamina.model.folder import assign_weights
from lamina.model.seq2seq import Seq2Seq
from lamina.text.vocabulary import Vocabularies


def load_checkpoint(checkpoint: Path, source_dictionary: Path, target_dictionary: Path) -> tuple[Seq2Seq, Vocabularies]:
    """The model in evaluation mode, and its vocabularies."""
    vocabularies = Vocabularies(read_dictionary(source_dictionary), read_dictionary(target_dictionary))
    arguments, weights = read_checkpoint(checkpoint)
    config = read_arguments(arguments, vocabularies, str(checkpoint))
    model = Seq2Seq(config)
    assign_weights(model, take_weights(model, weights, arguments, str(checkpoint)), str(checkpoint))
    return model.eval(), vocabularies


def read_checkpoint(path: Path) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """The command-line arguments and the weights."""
    try:
        with torch.serialization.safe_globals([argparse.Namespace]), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            content = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError as error:
        raise DataError(f"{path}: not found.") from error
    except pickle.UnpicklingError as error:
        raise DataError(
            f"{path}: holds more than tensors and arguments, or is damaged; it was not loaded, since loading it "
            "could execute code."
        ) from error
    except Exception as error:  # a damaged file can fail anywhere in torch's reader
        raise DataError(f"{path}: not a checkpoint that torch can read ({error}).") from error
    arguments = content.get("args") if isinstance(content, dict) else None
    weights = content.get("model") if isinstance(content, dict) else None
    if not isinstance(arguments, argparse.Namespace) or not isinstance(weights, dict):
        raise DataError(f"{path}: not a fairseq 0.9 checkpoint: it has no `args` and `model`.")
    return vars(arguments), weights
