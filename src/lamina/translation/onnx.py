"""Decoding with ONNX graphs, through the `Stepper` protocol of the search."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lamina.errors import DataError, MissingExtraError, UsageError
from lamina.model.states import LogProbs
from lamina.recipe.decode import SearchSettings
from lamina.search.beam import beam_search
from lamina.search.sampling import Sampler
from lamina.store.onnx_folder import DECODER, ENCODER, OnnxDescription, read_description
from lamina.translation.backends import Hypotheses, SourceBatch
from lamina.translation.torch_backend import pad_ids

Arrays = dict[str, NDArray[np.float32]]
CPU = torch.device("cpu")


@dataclass(frozen=True)
class OnnxState:
    """Encoder outputs, one row per source, and decoder caches, one row per hypothesis."""

    memory: Arrays
    caches: Arrays
    position: int
    sources: int


class OnnxStepper:
    """Steps through the encoder and decoder graphs of an export."""

    def __init__(self, folder: Path, description: OnnxDescription) -> None:
        self.description = description
        self.encoder, self.decoder = (open_graph(folder / name) for name in (ENCODER, DECODER))
        self.inputs = [each.name for each in self.decoder.get_inputs()]

    def start(self, source_BS: Tensor, rows: int) -> OnnxState:
        """Encode the sources."""
        names = ("valid", *self.description.memories)
        memory = dict(zip(names, self.encoder.run(None, {"source": source_BS.numpy()}), strict=True))
        sizes = {"rows": len(source_BS) * rows, "past": 0}
        caches = {
            cache.name: np.zeros([sizes[size] if isinstance(size, str) else size for size in cache.shape], np.float32)
            for cache in self.description.caches
        }
        return OnnxState(memory, caches, 0, len(source_BS))

    def step(self, tokens_R: Tensor, state: OnnxState) -> tuple[LogProbs, OnnxState]:
        """Feed one token per row."""
        feeds: dict[str, Any] = {"tokens": tokens_R.numpy(), "position": np.array(state.position)}
        feeds |= {**state.memory, **state.caches}
        log_probs_RV, *extended = self.decoder.run(None, {name: feeds[name] for name in self.inputs})
        log_probs_BWV = torch.from_numpy(log_probs_RV).view(state.sources, -1, log_probs_RV.shape[1])
        caches = dict(zip(state.caches, extended, strict=True))
        normaliser_BW1 = log_probs_BWV.new_zeros(*log_probs_BWV.shape[:2], 1)
        return LogProbs(log_probs_BWV, normaliser_BW1), replace(state, caches=caches, position=state.position + 1)

    def reorder(self, state: OnnxState, rows_R: Tensor) -> OnnxState:
        """Reorder the caches to follow the beam."""
        rows = rows_R.numpy()
        return replace(state, caches={name: cache[rows] for name, cache in state.caches.items()})

    def keep(self, state: OnnxState, sources: Tensor) -> OnnxState:
        """Drop all sources but these."""
        kept = sources.numpy()
        memory = {name: tensor[kept] for name, tensor in state.memory.items()}
        caches = {
            name: cache.reshape(state.sources, -1, *cache.shape[1:])[kept].reshape(-1, *cache.shape[1:])
            for name, cache in state.caches.items()
        }
        return OnnxState(memory, caches, state.position, len(kept))


def open_graph(path: Path) -> Any:
    """Open an onnxruntime session with as many threads as torch."""
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingExtraError(f"{path.parent} (an ONNX export)", "onnx") from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    try:
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's exceptions have no common base class
        raise DataError(f"{path}: onnxruntime cannot open it ({str(error).splitlines()[0]}).") from error


class OnnxBackend:
    """Decodes with onnxruntime, one batch at a time."""

    batches_at_once = 1

    def __init__(self, folder: Path) -> None:
        self.description = read_description(folder)
        self.stepper = OnnxStepper(folder, self.description)

    def search(self, batches: Sequence[SourceBatch], settings: SearchSettings) -> Iterator[Hypotheses]:
        start_id = self.description.start_id
        for batch in batches:
            yield beam_search(self.stepper, pad_ids(batch.sources, CPU), settings, start_id, batch.prefixes)

    def sample(self, batch: SourceBatch, sampler: Sampler) -> Hypotheses:
        return sampler(self.stepper, pad_ids(batch.sources, CPU), self.description.start_id)

    def attention(self, source: Sequence[int], target: Sequence[int]) -> list[tuple[Tensor, ...]]:
        raise UsageError("ONNX exports do not return attention; use the run that was exported.")
