"""Build models from names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from pydantic import ValidationError
from torch.overrides import TorchFunctionMode

from lamina.base.problems import describe_errors
from lamina.errors import ConfigurationError, UsageError
from lamina.model.config import ModelConfig
from lamina.model.seq2seq import Seq2Seq
from lamina.systems.published import settings
from lamina.text.vocabulary import SPECIALS


def resolve(
    system: str | None, size: str, vocab_size: int | tuple[int, int], overrides: Mapping[str, Any]
) -> ModelConfig:
    """The full configuration of a system at a size, with a user's overrides; reports all problems at once."""
    for name, value in (("system", system or ""), ("size", size)):
        if not isinstance(value, str):
            raise UsageError(f"The {name} must be a name, but is {value!r} instead.")
    sizes = vocab_size if isinstance(vocab_size, tuple) else (vocab_size, vocab_size)
    if len(sizes) != 2 or not all(isinstance(entries, int) and entries > len(SPECIALS) for entries in sizes):
        raise UsageError(
            f"vocab_size must be a whole number above {len(SPECIALS)}, or a (source, target) tuple of two such "
            f"numbers, but is {vocab_size!r} instead."
        )
    source, target = sizes
    chosen = settings(system, size, overrides)
    for name in ("source_vocab", "target_vocab"):
        if name in overrides:
            raise UsageError(f"{name} is not an option here; use vocab_size.")
    if isinstance(vocab_size, tuple) and source != target:
        chosen.setdefault("share_embeddings", "decoder")
    data = {**chosen, "source_vocab": source, "target_vocab": target}
    try:
        config = ModelConfig.model_validate(data)
    except ValidationError as error:
        raise ConfigurationError(describe_errors(error, ModelConfig, data)) from error
    problems = config.problems()
    if problems:
        raise ConfigurationError(problems)
    return config


def build(system: str | None = None, *, vocab_size: int | tuple[int, int], size: str = "base", **model: Any) -> Seq2Seq:
    """Build a model with newly initialised weights. `model` takes the keys of a recipe's `model`."""
    return Seq2Seq(resolve(system, size, vocab_size, model))


def count_parameters(config: ModelConfig) -> int:
    """Count the parameters of a model without allocating it."""
    with torch.device("meta"), _SkipInit():
        return sum(parameter.numel() for parameter in Seq2Seq(config).parameters())


class _SkipInit(TorchFunctionMode):
    """Skips random initialisation, which is slow even on the meta device."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (torch.Tensor.uniform_, torch.Tensor.normal_):
            return args[0]
        return func(*args, **(kwargs or {}))
