"""Search settings: a recipe's `decode`, and the options of every command that translates.

A field here becomes a key of the recipe, an option of `translate`, `eval` and `compare`, an argument of
`Translator.translate` and a line of the reference. For type checkers it is repeated in `SearchOptions` (`options.py`).
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from lamina.base.problems import describe_errors
from lamina.base.settings import Settings
from lamina.errors import UsageError


class SearchSettings(Settings):
    """Settings of beam search, the keys of a recipe's `decode`; the length limits also apply to sampling."""

    beam: Annotated[int, Field(ge=1, le=256, description="Beam size.")] = 5
    lenpen: Annotated[
        float, Field(ge=-10, le=10, description="Length penalty: score = log p / length^lenpen, eos included.")
    ] = 1.0
    min_length: Annotated[int, Field(ge=0, le=10_000, description="Minimum number of tokens before eos.")] = 1
    max_length: Annotated[
        tuple[Annotated[float, Field(ge=0, le=100)], Annotated[int, Field(ge=0, le=10_000)]],
        Field(strict=False, description="Maximum tokens before eos: A × (source tokens incl. eos) + B."),
    ] = (2.0, 20)
    no_repeat_ngram: Annotated[
        int, Field(ge=0, le=100, description="Never repeat an n-gram of this size; 0 turns it off.")
    ] = 0
    diverse_groups: Annotated[
        int, Field(ge=1, le=256, description="Number of diverse beam groups (Vijayakumar et al. 2018).")
    ] = 1
    diversity: Annotated[
        float, Field(ge=0, le=1000, description="Penalty for tokens that earlier groups chose at the same step.")
    ] = 0.5

    @model_validator(mode="after")
    def _check(self) -> SearchSettings:
        if self.beam % self.diverse_groups:
            raise _problem(
                "beam", f"must be a multiple of diverse_groups {self.diverse_groups}, but is {self.beam} instead."
            )
        if self.limit(1) < self.min_length:
            raise _problem(
                "min_length",
                f"must be at most {self.limit(1)}, the maximum length for the shortest source, "
                f"but is {self.min_length} instead.",
            )
        return self

    def limit(self, source_length: int) -> int:
        """The maximum number of tokens before eos for a source of this length (incl. eos)."""
        slope, base = self.max_length
        return int(slope * source_length + base)

    def with_options(self, **options: Any) -> SearchSettings:
        """A copy with some options replaced; those that are None stay unchanged."""
        given = {name: value for name, value in options.items() if value is not None}
        data = {**self.model_dump(), **given}
        try:
            return SearchSettings.model_validate(data)
        except ValidationError as error:
            raise UsageError("\n".join(map(str, describe_errors(error, SearchSettings, data)))) from error


def _problem(key: str, message: str) -> PydanticCustomError:
    return PydanticCustomError("choice", "{message}", {"key": key, "message": message})
