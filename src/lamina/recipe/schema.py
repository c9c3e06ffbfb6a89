"""The schema of a recipe, with every default."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt

from lamina.base.settings import Rate, Settings
from lamina.errors import Problem
from lamina.model.config import ModelConfig
from lamina.recipe.decode import SearchSettings

Name = Annotated[str, Field(pattern=r"^[^/\\\x00.][^/\\\x00]*$", max_length=200)]  # also the name of a folder
Every = PositiveInt | Literal["epoch"]


class TrainSettings(Settings):
    """A recipe's `train`."""

    max_steps: PositiveInt = 8000  # maximum number of updates
    batch_tokens: PositiveInt = 4096  # sentences × longest target, per rank and micro-batch
    accumulate: PositiveInt = 1  # micro-batches per update
    optimizer: Literal["adam", "adamw"] = "adam"  # `adamw` for weight decay
    betas: Annotated[tuple[Rate, Rate], Field(strict=False)] = (0.9, 0.98)  # of the optimizer
    lr: PositiveFloat = 5e-4  # peak learning rate
    schedule: Literal["inverse_sqrt", "linear", "cosine", "constant"] = "inverse_sqrt"  # after the warmup
    warmup: NonNegativeInt = 4000  # steps from 1e-7 to `lr`
    label_smoothing: Rate = 0.1  # probability mass spread over the vocabulary
    edit_weight: Annotated[float, Field(ge=1, le=100)] = 1.0  # weight of target tokens unlike the source (GEC)
    source_word_dropout: Rate = 0.0  # fraction of source words replaced by `<unk>` in training
    weight_decay: Annotated[float, Field(ge=0)] = 0.0  # `adamw` only
    clip_norm: PositiveFloat | None = None  # maximum gradient norm
    encoder_l2: PositiveFloat | None = None  # λ·W on the gradient of encoder matrices (MSC at 72 layers)
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 1  # of initialisation, dropout and data order
    save_every: Every = 500  # steps, or `epoch`
    validate_every: Every = 500  # steps, or `epoch`
    log_every: PositiveInt = 50  # steps between log lines
    gradients_every: PositiveInt = 100  # steps between records of the gradient norm of every encoder layer
    keep_last: PositiveInt = 10  # most recent checkpoints to keep
    keep_best: PositiveInt = 1  # best checkpoints to keep, by validation
    patience: PositiveInt | None = 10  # stop after this many validations without improvement
    bleu_sentences: NonNegativeInt = 0  # validation pairs to translate at every validation
    best_by: Literal["loss", "bleu"] = "loss"  # metric that selects the best checkpoint
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"  # `auto`: fp32 on a CPU, 16 bits on a GPU
    ema: Annotated[float, Field(gt=0, lt=1)] | None = None  # decay of a moving average of the weights
    gradient_checkpointing: bool = False  # recompute encoder layers in the backward pass: less memory, more time
    compile: bool = False  # torch.compile

    def problems(self) -> Iterator[Problem]:
        """Incompatible options."""
        if self.schedule != "constant" and self.warmup >= self.max_steps:
            yield Problem(
                "train.warmup",
                f"must be less than max_steps {self.max_steps}, but is {self.warmup} instead.",
            )
        if self.best_by == "bleu" and not self.bleu_sentences:
            yield Problem("train.best_by", "`bleu` needs `bleu_sentences`, the validation pairs to translate.")
        if self.optimizer == "adam" and self.weight_decay > 0:
            yield Problem("train.weight_decay", "needs optimizer `adamw`; for MSC's L2 use `encoder_l2`.")


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
