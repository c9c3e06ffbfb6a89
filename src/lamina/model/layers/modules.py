"""A typed list of modules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar, cast

from torch import nn

Part = TypeVar("Part", bound=nn.Module)


class Modules(nn.ModuleList, Generic[Part]):
    """`nn.ModuleList` with a type for its elements."""

    def __iter__(self) -> Iterator[Part]:
        return cast("Iterator[Part]", super().__iter__())
