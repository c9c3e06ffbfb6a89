"""The base classes of encoder, bridge and head configurations, and the choice between them by `type`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from inspect import isfunction
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
    """The base of every encoder's configuration."""

    type: str
    layers: int  # number of layers
    makes_contexts: ClassVar[bool] = False

    def block_sizes(self, model: ModelConfig) -> tuple[int, ...] | None:
        """Layers per block, or None if the encoder has no blocks."""
        return None

    def problems(self, model: ModelConfig) -> Iterator[Problem]:
        """Incompatibilities with the rest of the model."""
        yield from ()

    @abstractmethod
    def build(self, model: ModelConfig) -> nn.Module:
        """Build a module that fills in the layers and top of embedded `EncoderStates`."""


class BridgeSettings(Settings, ABC):
    """The base of every bridge's configuration."""

    type: str
    streams: ClassVar[int] = 1
    reads_contexts: ClassVar[bool] = False
    grows_decoder: ClassVar[bool] = False  # whether the decoder extends a trained one

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if isfunction(vars(cls).get("reads_top")):
            raise TypeError(f"{cls.__name__}.reads_top must be a property: decorate it with @property.")
        if cls.streams > 1 and cls.build_fusion is BridgeSettings.build_fusion:
            raise TypeError(f"{cls.__name__} has {cls.streams} streams: override build_fusion, which combines them.")

    @property
    def reads_top(self) -> bool:
        """Whether this bridge reads the encoder's final states."""
        return False

    def problems(self, model: ModelConfig) -> Iterator[Problem]:
        """Incompatibilities with the rest of the model."""
        yield from ()

    def build_fusion(self, d_model: int) -> nn.Module:
        """Build the module with which the decoder combines the attended streams."""
        return nn.Identity()

    @abstractmethod
    def build(self, model: ModelConfig) -> nn.Module:
        """Build a module from `EncoderStates` to one `Memory` per decoder layer."""


class HeadSettings(Settings, ABC):
    """The base of every head's configuration."""

    type: str
    copies: ClassVar[bool] = False  # whether it copies source tokens, which requires a joint vocabulary

    def problems(self, model: ModelConfig) -> Iterator[Problem]:
        """Incompatibilities with the rest of the model."""
        yield from ()

    @abstractmethod
    def build(self, model: ModelConfig, weight_VD: nn.Parameter) -> Head:
        """Build a head over the softmax matrix, which may be shared with an embedding."""


OWN = " To use a type of your own, register it first (see `Add a bridge` in the documentation)."


def choose(table: Mapping[str, type[Settings]]) -> Callable[[Any], Any]:
    """A validator that looks up the class for `{"type": name, …}` in a socket's table."""

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
                "must be one of {names}, but is {value} instead.{hint}",
                {"key": "type", "names": ", ".join(table), "value": f"`{name}`", "hint": nearest(name, table) or OWN},
            )
        return table[name].model_validate(value)

    return validate
