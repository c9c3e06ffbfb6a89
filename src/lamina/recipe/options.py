"""The keys of a recipe's `train` and `decode` as types of keyword arguments; a test compares them with the schema."""

from __future__ import annotations

from typing import Literal, TypedDict


class SearchOptions(TypedDict, total=False):
    """The keys of a recipe's `decode`, keyword arguments of `translate`; the defaults are the run's.

    `beam`, `lenpen`, `min_length`, `max_length`, `no_repeat_ngram`, `diverse_groups`, `diversity`; `lamina translate
    --help` explains them. `max_length=(a, b)` allows a × (number of source tokens) + b tokens.

    Example:
        >>> options: lamina.SearchOptions = {"beam": 2, "max_length": (0, 12)}
        >>> lamina.load("runs/first").translate("A dog runs.", **options)
        Translation('...', score=-...)
    """

    beam: int | None
    lenpen: float | None
    min_length: int | None
    max_length: tuple[float, int] | None
    no_repeat_ngram: int | None
    diverse_groups: int | None
    diversity: float | None


class TrainOptions(TypedDict, total=False):
    """The keys of a recipe's `train`, keyword arguments of `lamina.train`; the defaults are the recipe's.

    - updates: `max_steps`, `batch_tokens`, `accumulate`, `seed`, `patience`
    - optimiser: `optimizer`, `betas`, `lr`, `schedule`, `warmup`, `weight_decay`, `clip_norm`, `encoder_l2`
    - loss: `label_smoothing`, `edit_weight`, `source_word_dropout`
    - saving: `save_every`, `validate_every`, `keep_last`, `keep_best`, `best_by`, `bleu_sentences`, `ema`
    - records: `log_every`, `gradients_every`
    - speed and memory: `precision`, `gradient_checkpointing`, `compile`

    `lamina recipes schema` explains them.

    Example:
        >>> options: lamina.TrainOptions = {"max_steps": 2, "lr": 1e-3, "patience": 3}
        >>> lamina.train("transformer", "data", "runs/short", model={"d_model": 16}, **options)
        Run('runs/short', transformer, 2 of 2 steps, best step 2)
    """

    max_steps: int
    batch_tokens: int
    accumulate: int
    optimizer: Literal["adam", "adamw"]
    betas: tuple[float, float]
    lr: float
    schedule: Literal["inverse_sqrt", "linear", "cosine", "constant"]
    warmup: int
    label_smoothing: float
    edit_weight: float
    source_word_dropout: float
    weight_decay: float
    clip_norm: float | None
    encoder_l2: float | None
    seed: int
    save_every: int | Literal["epoch"]
    validate_every: int | Literal["epoch"]
    log_every: int
    gradients_every: int
    keep_last: int
    keep_best: int
    patience: int | None
    bleu_sentences: int
    best_by: Literal["loss", "bleu"]
    precision: Literal["auto", "fp32", "bf16", "fp16"]
    ema: float | None
    gradient_checkpointing: bool
    compile: bool
