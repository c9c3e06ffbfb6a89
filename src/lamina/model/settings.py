"""What the configurations of encoders, bridges and heads have in common, and how a socket finds its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic_core import PydanticCustomError
from torch import nn

from lamina.base.settings import Settings
from lamina.errors import Problem
from lamina.names import nearest

if TYPE_CHECKING:
    from lamina.model.config import ModelConfig
    from lamina.model.heads.head import Head


class EncoderSettings(Settings, ABC):
    """What every encoder's configuration has."""

    type: str
    layers: int  # number of layers
    makes_contexts: ClassVar[bool] = False

    def block_sizes(self, model: ModelConfig) -> tuple[int, ...] | None:
        """Layers per block, where the encoder has blocks of its own."""
        return None

    def problems(self, model: ModelConfig) -> Iterator[Problem]:
        """What does not fit together with the rest of the model."""
        yield from ()

    @abstractmethod
    def build(self, model: ModelConfig) -> nn.Module:
        """A module from `EncoderStates` with an embedding to `EncoderStates` with layers."""


class BridgeSettings(Settings, ABC):
    """What every bridge's configuration has."""

    type: str
    streams: ClassVar[int] = 1
    reads_contexts: ClassVar[bool] = False
    grows_decoder: ClassVar[bool] = False  # whether the decoder is wired around a trained one

    @property
    def reads_top(self) -> bool:
        """Whether the encoder's final states are trained through this bridge."""
        return False

    def problems(self, model: ModelConfig) -> Iterator[Problem]:
        """What does not fit together with the rest of the model."""
        yield from ()

    def build_fusion(self, d_model: int) -> nn.Module:
        """How the decoder joins what it read from each stream into one."""
        return nn.Identity()

    @abstractmethod
    def build(self, model: ModelConfig) -> nn.Module:
        """A module from `EncoderStates` to one `Memory` per decoder layer."""


class HeadSettings(Settings, ABC):
    """What every head's configuration has."""

    type: str
    copies: ClassVar[bool] = False  # source tokens, so that both sides need one vocabulary

    def problems(self, model: ModelConfig) -> Iterator[Problem]:
        """What does not fit together with the rest of the model."""
        yield from ()

    @abstractmethod
    def build(self, model: ModelConfig, weight_VD: nn.Parameter) -> Head:
        """A `Head` over the softmax matrix, which may be an embedding's."""


def choose(table: Mapping[str, type[Settings]]) -> Callable[[Any], Any]:
    """A validator that finds the class for `{"type": name, …}` in a socket's table."""

    def validate(value: Any) -> Any:
        if isinstance(value, Settings):
            return value
        if not isinstance(value, Mapping):
            example = value if isinstance(value, str) and value in table else next(iter(table))
            raise PydanticCustomError(
                "choice",
                "must be a mapping such as {example}, but is {value} instead.",
                {"example": f"{{type: {example}}}", "value": repr(value)},
            )
        name = str(value.get("type"))
        if name not in table:
            raise PydanticCustomError(
                "choice",
                "`type` must be one of {names}, but is {value} instead.{hint}",
                {"names": ", ".join(table), "value": f"`{name}`", "hint": nearest(name, table)},
            )
        return table[name].model_validate(value)

    return validate
