"""The schema of a recipe, with every default."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, NonNegativeInt, PositiveFloat, PositiveInt
from pydantic_core import PydanticCustomError

from lamina.base.settings import Rate, Settings
from lamina.errors import Problem
from lamina.model.config import ModelConfig
from lamina.recipe.decode import SearchSettings

Name = Annotated[str, Field(pattern=r"^[^/\\\x00.][^/\\\x00]*$", max_length=200)]  # also the name of a folder


def steps_or_epoch(every: Any) -> Any:
    """Validate an interval: a number of steps, or `epoch`."""
    if every == "epoch" or (isinstance(every, int) and not isinstance(every, bool) and every > 0):
        return every
    raise PydanticCustomError(
        "choice", "must be a number of steps above 0, or `epoch`, but is {every} instead.", {"every": repr(every)}
    )


Every = Annotated[PositiveInt | Literal["epoch"], BeforeValidator(steps_or_epoch)]


class TrainSettings(Settings):
    """A recipe's `train`."""

    max_steps: PositiveInt = 8000  # maximum number of updates
    batch_tokens: PositiveInt = 4096  # padded target tokens per micro-batch and process
    accumulate: PositiveInt = 1  # micro-batches per update
    optimizer: Literal["adam", "adamw"] = "adam"  # use `adamw` for weight decay
    betas: Annotated[tuple[Rate, Rate], Field(strict=False)] = (0.9, 0.98)  # β1 and β2 of Adam
    lr: PositiveFloat = 5e-4  # peak learning rate
    schedule: Literal["inverse_sqrt", "linear", "cosine", "constant"] = "inverse_sqrt"  # learning rate after warm-up
    warmup: NonNegativeInt = 4000  # steps of linear warm-up from 1e-7 to `lr`
    label_smoothing: Rate = 0.1  # probability mass spread over the vocabulary
    edit_weight: Annotated[float, Field(ge=1, le=100)] = 1.0  # loss weight of tokens that differ from the source
    source_word_dropout: Rate = 0.0  # probability of replacing a source word with `<unk>`
    weight_decay: Annotated[float, Field(ge=0)] = 0.0  # requires optimizer `adamw`
    clip_norm: PositiveFloat | None = None  # maximum gradient norm; None disables clipping
    encoder_l2: PositiveFloat | None = None  # L2: adds λ·W to the gradient of encoder matrices
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 1  # random seed for initial weights, dropout and data order
    save_every: Every = 500  # steps between checkpoints, or `epoch`
    validate_every: Every = 500  # steps between validations, or `epoch`
    log_every: PositiveInt = 50  # steps between log lines
    gradients_every: PositiveInt = 100  # steps between records of each encoder layer's gradient norm
    keep_last: PositiveInt = 10  # number of most recent checkpoints to keep
    keep_best: PositiveInt = 1  # number of best checkpoints to keep
    patience: PositiveInt | None = 10  # stop after this many validations without improvement
    bleu_sentences: NonNegativeInt = 0  # number of validation pairs to translate for BLEU
    best_by: Literal["loss", "bleu"] = "loss"  # criterion for the best checkpoint
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"  # `auto`: fp32 on a CPU, bf16 or fp16 on a GPU
    ema: Annotated[float, Field(gt=0, lt=1)] | None = None  # decay of an exponential moving average of weights
    gradient_checkpointing: bool = False  # recompute encoder layers in the backward pass: less memory, more time
    compile: bool = False  # use `torch.compile`

    def problems(self) -> Iterator[Problem]:
        """Incompatible options."""
        if self.schedule != "constant" and self.warmup >= self.max_steps:
            found = f"is {self.warmup} instead" if "warmup" in self.model_fields_set else f"is {self.warmup} by default"
            yield Problem("train.warmup", f"must be less than max_steps {self.max_steps}, but {found}.")
        if self.best_by == "bleu" and not self.bleu_sentences:
            yield Problem("train.best_by", "`bleu` needs `bleu_sentences`, the number of pairs to translate.")
        if self.optimizer == "adam" and self.weight_decay > 0:
            yield Problem(
                "train.weight_decay", "needs optimizer `adamw`; for MSC's L2 regularisation, use `encoder_l2`."
            )


class Recipe(Settings):
    """A fully resolved recipe, sufficient to rebuild the model and repeat its training."""

    name: Name
    system: str | None
    model: ModelConfig
    train: TrainSettings
    decode: SearchSettings

    def problems(self) -> list[Problem]:
        """All incompatible options."""
        model = [Problem(f"model.{problem.key}", problem.message) for problem in self.model.problems()]
        return [*model, *self.train.problems()]
