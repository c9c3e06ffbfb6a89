"""`lamina.prepare`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
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
    - a split of a Hugging Face dataset, or any iterable of mappings (or with one under `translation`): `fields` names
      source and target; else they are named after `langs`, `src` and `tgt`, or the only two, in `train`'s order.

    The other arguments are the options of `lamina prepare`. After an interruption, the same call resumes. Progress is
    shown in terminals and notebooks; `progress=False` hides it, and a function `(stage, done, total)` receives it.

    Example:
        >>> pairs = [("A dog runs.", "Ein Hund rennt."), ("Two cats sleep.", "Zwei Katzen schlafen.")] * 20
        >>> lamina.prepare(pairs, valid=pairs[:2], out="pairs", langs=("en", "de"), no_filter="duplicate")
        PreparedData('pairs', en → de, 40 train and 2 valid pairs, vocabulary 291)
    """
    from lamina.base.arguments import as_list
    from lamina.base.progress import show_progress
    from lamina.base.threads import usable_cores
    from lamina.corpus.filters import Filters
    from lamina.corpus.plan import Plan, TextOptions
    from lamina.corpus.prepare import prepare as prepare_data
    from lamina.corpus.sources import find_sources
    from lamina.store.hub import fetch

    _check(out, subwords, line_breaks, langs, fields, max_ratio, vocab_size, max_source, max_characters, workers)
    given, langs = text_from and fetch(text_from), langs and (langs[0], langs[1])
    text = TextOptions(subwords, vocab_size, bpe_codes, separate_vocab, pretokenized, lowercase, given, langs)
    filters = Filters.without(as_list(no_filter), max_characters, max_ratio)
    how = fields, langs, line_breaks == "symbol" or sentences, annotator
    with show_progress(progress) as shown, find_sources(train, valid, test, Path(out), *how) as (splits, named):
        plan = Plan(*splits, text.named(named), filters, sentences, max_source)
        return prepare_data(plan, Path(out), workers or usable_cores(), shown)


def _check(
    out: object,
    subwords: object,
    line_breaks: object,
    langs: object,
    fields: object,
    max_ratio: object,
    *counts: int | None,
) -> None:
    """Check the arguments; the last are vocab_size, max_source, max_characters and workers."""
    from lamina.base.arguments import check_choice, check_counts, check_names, check_path, reject

    check_path("out", out, "the path of a new folder")
    check_choice("subwords", subwords, ("sentencepiece", "bpe", "none"))
    check_choice("line_breaks", line_breaks, ("space", "symbol"))
    check_names("langs", langs)
    check_names("fields", fields)
    if not isinstance(max_ratio, int | float):
        reject("max_ratio", "a number", max_ratio)
    for name, count in zip(("vocab_size", "max_source", "max_characters", "workers"), counts, strict=True):
        check_counts(**{name: count})
