"""Source-word dropout: hides some source words, so that a model does not copy blindly."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lamina.text.pipeline import TextPipeline
from lamina.text.subwords import CONTINUED
from lamina.text.vocabulary import BOS, EOS, UNK

WORD = "▁"  # SentencePiece's mark of a word's first piece


class WordDropout:
    """Replaces whole source words by `<unk>` with probability `rate` (Junczys-Dowmunt et al. 2018).

    The choice is a function of seed, epoch and pair, so that resumed training drops the same words.
    """

    def __init__(self, text: TextPipeline, rate: float, seed: int) -> None:
        symbols = text.source.vocabulary.symbols
        self.rate, self.seed = rate, seed
        self.pieces = text.kind in ("sentencepiece", "marian")
        if self.pieces:
            self.marked = np.array([symbol.startswith(WORD) for symbol in symbols])
        else:
            self.marked = np.array([symbol.endswith(CONTINUED) for symbol in symbols])
        self.marked[[BOS, EOS]] = self.pieces  # words of their own, which are never dropped

    def __call__(self, ids: NDArray[Any], epoch: int, pair: int) -> NDArray[np.int64]:
        """A copy of the ids in which some words are `<unk>`."""
        ids = ids.astype(np.int64)
        begins = np.ones(len(ids), dtype=np.bool_)
        begins[1:] = self.marked[ids[1:]] if self.pieces else ~self.marked[ids[:-1]]
        word = np.cumsum(begins) - 1
        dropped = np.random.default_rng([self.seed, epoch, pair]).random(len(ids)) < self.rate
        ids[dropped[word] & (ids != EOS) & (ids != BOS)] = UNK
        return ids
