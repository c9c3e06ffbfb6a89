"""Types of keyword arguments for a recipe's `train` and `decode`; a test compares them with the schema."""

from __future__ import annotations

from typing import Literal, TypedDict


class SearchOptions(TypedDict, total=False):
    """A recipe's `decode`; omitted options keep the run's values."""

    beam: int | None
    lenpen: float | None
    min_length: int | None
    max_length: tuple[float, int] | None
    no_repeat_ngram: int | None
    diverse_groups: int | None
    diversity: float | None


class TrainOptions(TypedDict, total=False):
    """A recipe's `train`; omitted options keep the recipe's values."""

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
