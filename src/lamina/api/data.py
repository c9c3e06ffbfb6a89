"""`lamina.prepare`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from lamina.base.files import StrPath
    from lamina.base.progress import Progress
    from lamina.corpus.prepared import PreparedData
    from lamina.corpus.sources import Pairs


def prepare(
    train: Pairs,
    valid: Pairs,
    out: StrPath,
    *,
    test: Pairs | None = None,
    fields: tuple[str, str] | None = None,
    annotator: int | None = None,
    line_breaks: Literal["space", "symbol"] = "space",
    sentences: bool = False,
    max_source: int | None = None,
    vocab_size: int | None = None,
    subwords: Literal["sentencepiece", "bpe", "none"] = "sentencepiece",
    bpe_codes: StrPath | None = None,
    separate_vocab: bool = False,
    pretokenized: bool = False,
    lowercase: bool = False,
    text_from: StrPath | None = None,
    langs: tuple[str, str] | None = None,
    no_filter: Sequence[str] = (),
    max_characters: int = 2000,
    max_ratio: float = 9.0,
    workers: int | None = None,
    progress: bool | Progress | None = None,
) -> PreparedData:
    """Turn raw parallel text into a data folder for training, like `lamina prepare`.

    `train`, `valid` and `test` are each one of

    - two parallel files `(source, target)`, plain, `.gz` or `.zst`;
    - one file of pairs, `.tsv` or `.jsonl`, or of corrections, `.m2`;
    - any iterable of `(source, target)` texts, which is read once and not held in memory;
    - a split of a Hugging Face dataset, or any iterable of mappings with both languages under `translation`, or with
      two columns; if there are more, `fields` names the two.

    The other arguments are the options of `lamina prepare`. After an interruption, the same call resumes. Progress is
    shown in terminals and notebooks unless `progress` is False.

    Example:
        >>> pairs = [("A dog runs.", "Ein Hund rennt."), ("Two cats sleep.", "Zwei Katzen schlafen.")] * 20
        >>> data = lamina.prepare(pairs, valid=pairs[:2], out="pairs", langs=("en", "de"), no_filter=["duplicate"])
        >>> data
        PreparedData('pairs', en → de, 40 train and 2 valid pairs, vocabulary 291)
    """
    from pathlib import Path

    from lamina.base.progress import show_progress
    from lamina.corpus.filters import Filters
    from lamina.corpus.plan import Plan
    from lamina.corpus.prepare import prepare as prepare_data
    from lamina.corpus.sources import SourceFinder, is_from_python, scratch_beside
    from lamina.text.pipeline import find_text
    from lamina.text.sentences import LINE_BREAK

    folder = Path(out)
    line_break = " " if line_breaks == "space" and not sentences else f" {LINE_BREAK} "
    needed = any(map(is_from_python, (train, valid, test)))
    with show_progress(progress) as shown, scratch_beside(folder, needed) as scratch:
        finder = SourceFinder(scratch, fields, line_break, None if annotator is None else str(annotator))
        plan = Plan(
            train=finder.find("train", train),
            valid=finder.find("valid", valid),
            test=None if test is None else finder.find("test", test),
            subwords="bpe" if bpe_codes is not None and subwords == "sentencepiece" else subwords,
            vocab_size=vocab_size,
            bpe_codes=None if bpe_codes is None else Path(bpe_codes),
            separate_vocab=separate_vocab,
            pretokenized=pretokenized,
            lowercase=lowercase,
            text_from=None if text_from is None else find_text(Path(text_from)),
            languages=langs or (finder.languages if text_from is None else None),
            filters=Filters.without(no_filter, max_characters, max_ratio),
            sentences=sentences,
            max_source=max_source,
        )
        return prepare_data(plan, folder, workers or os.cpu_count() or 1, shown)
