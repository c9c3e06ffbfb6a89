"""Vocabulary shortlists: the few entries of the target vocabulary that a batch of sources may need.

A lexical table lists the most likely target tokens of every source token; the most frequent target tokens are always
included. Search runs over the shortlist as over a small vocabulary: entry i is `words[i]`, and special symbols keep
their ids.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from lamina.base.files import atomic_folder, require_absent
from lamina.errors import DataError
from lamina.text.pipeline import TextPipeline
from lamina.text.vocabulary import SPECIALS

Int32 = NDArray[np.int32]
Words = NDArray[np.int64]  # ids of the target vocabulary, ascending, the special symbols first

TABLE = "shortlist.safetensors"
MOST_ENTRIES = 20_000_000  # maximum number of token pairs to learn from
ITERATIONS = 4


@dataclass(frozen=True)
class Shortlist:
    """A lexical table, with a digest of the vocabularies it belongs to."""

    candidates: Int32  # (source vocabulary, K) target ids, padded with −1
    frequent: Int32
    vocabularies: str  # digest of both vocabularies

    def select(self, sources: Sequence[Sequence[int]], prefixes: Sequence[Sequence[int]] | None = None) -> Words:
        """The target ids that these sources may need, including those of forced prefixes."""
        tokens = np.unique(np.concatenate([np.asarray(source, np.int64) for source in sources]))
        forced = [token for prefix in prefixes or () for token in prefix]
        parts = (np.arange(len(SPECIALS)), self.frequent, self.candidates[tokens].reshape(-1), np.array(forced, int))
        words = np.unique(np.concatenate([np.asarray(part, np.int64) for part in parts]))
        return words[words >= 0]

    def digest(self) -> str:
        """SHA-256 of the table."""
        parts = (self.vocabularies.encode(), str(self.candidates.shape).encode(), self.candidates, self.frequent)
        return hashlib.sha256(b"\0".join(map(bytes, parts))).hexdigest()

    def save(self, folder: Path) -> None:
        """Write a folder, which must not exist yet."""
        require_absent(folder)
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with atomic_folder(folder) as partial:
                tensors = {"candidates": self.candidates, "frequent": self.frequent}
                save_file(
                    tensors, partial / TABLE, metadata={"vocabularies": self.vocabularies, "sha256": self.digest()}
                )
        except (OSError, safetensors.SafetensorError) as error:
            raise DataError(f"{folder}: cannot be written ({getattr(error, 'strerror', error)}).") from error


def load_shortlist(folder: Path, text: TextPipeline) -> Shortlist:
    """Load a shortlist and check that it belongs to this text pipeline."""
    path = folder / TABLE
    try:
        with safetensors.safe_open(path, "np") as opened:
            metadata = opened.metadata() or {}
        tensors = load_file(path)
        shortlist = Shortlist(tensors["candidates"], tensors["frequent"], metadata.get("vocabularies", ""))
    except FileNotFoundError as error:
        raise DataError(f"{path}: not found; create it with `lamina shortlist`.") from error
    except (OSError, KeyError, safetensors.SafetensorError) as error:
        raise DataError(f"{path}: is not a shortlist ({error}).") from error
    if metadata.get("sha256") != shortlist.digest():
        raise DataError(f"{path}: damaged (SHA-256 mismatch); create a new one with `lamina shortlist`.")
    if shortlist.vocabularies != digest_vocabularies(text):
        raise DataError(f"{folder}: belongs to other vocabularies; create a new one with `lamina shortlist`.")
    return shortlist


def digest_vocabularies(text: TextPipeline) -> str:
    """A digest of both vocabularies; pipelines with the same digest assign the same ids."""
    both = f"{text.source.vocabulary.text()}\0{text.target.vocabulary.text()}"
    return hashlib.sha256(both.encode("utf-8")).hexdigest()


def learn_shortlist(
    pairs: Iterable[tuple[Sequence[int], Sequence[int]]], text: TextPipeline, candidates: int, frequent: int
) -> Shortlist:
    """Learn a table of t(target | source) from encoded pairs with IBM Model 1 (Brown et al. 1993)."""
    entries = len(text.target.vocabulary)
    counts = np.zeros(entries, np.int64)
    sources: list[NDArray[np.int64]] = []
    targets: list[NDArray[np.int64]] = []
    groups: list[NDArray[np.int64]] = []
    size = positions = 0
    for source, target in pairs:
        types, tokens = np.unique(np.asarray(source, np.int64)), np.asarray(target, np.int64)
        counts += np.bincount(tokens, minlength=entries)
        if size < MOST_ENTRIES:
            sources.append(np.tile(types, len(tokens)))
            targets.append(tokens.repeat(len(types)))
            groups.append(np.arange(positions, positions + len(tokens)).repeat(len(types)))
            size, positions = size + len(types) * len(tokens), positions + len(tokens)
    if not sources:
        raise DataError("No pairs to learn a shortlist from.")
    keys, pairs_N = np.unique(np.concatenate(sources) * entries + np.concatenate(targets), return_inverse=True)
    probs = learn_probs(keys // entries, pairs_N, np.concatenate(groups), len(text.source.vocabulary))
    table = best_targets(keys // entries, keys % entries, probs, len(text.source.vocabulary), candidates)
    ranked = np.argsort(-counts, kind="stable")[:frequent]
    return Shortlist(table, ranked[counts[ranked] > 0].astype(np.int32), digest_vocabularies(text))


def learn_probs(
    owners: NDArray[np.int64], pairs_N: NDArray[np.int64], groups: NDArray[np.int64], entries: int
) -> NDArray[np.float64]:
    """t of every co-occurring pair of tokens by EM; `pairs_N` maps each occurrence to its pair."""
    probs: NDArray[Any] = np.ones(len(owners))
    for _ in range(ITERATIONS):
        posteriors = probs[pairs_N]
        posteriors = posteriors / np.bincount(groups, posteriors)[groups]
        probs = np.bincount(pairs_N, posteriors, minlength=len(owners))
        probs = probs / np.bincount(owners, probs, minlength=entries)[owners]
    return probs


def best_targets(
    owners: NDArray[np.int64], targets: NDArray[np.int64], probs: NDArray[np.float64], entries: int, count: int
) -> Int32:
    """The `count` most likely target tokens of each source token."""
    order = np.lexsort((-probs, owners))
    owners, targets = owners[order], targets[order]
    ranks = np.arange(len(owners)) - np.searchsorted(owners, owners)
    table = np.full((entries, count), -1, np.int32)
    kept = ranks < count
    table[owners[kept], ranks[kept]] = targets[kept]
    return table
