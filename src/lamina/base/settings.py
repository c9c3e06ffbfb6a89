"""The base of every configuration class."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

Rate = Annotated[float, Field(ge=0, lt=1)]
Depth = Annotated[int, Field(gt=0, le=1000)]  # number of layers


class Settings(BaseModel):
    """Frozen and strict: an unknown key or a wrong type is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    @classmethod
    def part(cls, name: str, value: Any) -> type[Settings] | None:
        """The settings class of the option `name`, or None if it has no nested options."""
        field = cls.model_fields.get(name)
        kind = field.annotation if field is not None else None
        return kind if isinstance(kind, type) and issubclass(kind, Settings) else None

    @classmethod
    def keys(cls) -> list[str]:
        """The keys that a user may give."""
        return list(cls.model_fields)
