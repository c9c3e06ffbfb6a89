"""What a search may be asked for."""

from __future__ import annotations

from dataclasses import dataclass

from lamina.errors import UsageError


@dataclass(frozen=True)
class SearchSettings:
    """Beam search, with the limits that apply to sampling as well."""

    beam: int = 5
    lenpen: float = 1.0  # score = Σ log p / (length incl. eos)^lenpen
    min_length: int = 1  # tokens before eos
    max_length: tuple[float, int] = (2.0, 20)  # at most a·S + b tokens before eos, S the source's own length incl. eos
    no_repeat_ngram: int = 0  # no n-gram of this size twice; 0 is off
    groups: int = 1  # diverse beams (Vijayakumar et al. 2018): so many groups …
    diversity: float = 0.5  # … each of which avoids by so much what those before it chose at the same step

    def __post_init__(self) -> None:
        if self.beam < 1:
            raise UsageError(f"The beam must be at least 1, but is {self.beam} instead.")
        if self.groups < 1 or self.beam % self.groups:
            raise UsageError(f"The beam {self.beam} must be a multiple of the {self.groups} groups.")
        if self.limit(1) < self.min_length:
            raise UsageError(f"The maximum length of a short source is below the minimum length {self.min_length}.")

    def limit(self, source_length: int) -> int:
        """The most tokens before eos for a source of this length incl. eos."""
        slope, base = self.max_length
        return int(slope * source_length + base)


@dataclass(frozen=True)
class Hypothesis:
    """What was written, eos last, and what the head says of it."""

    tokens: list[int]
    log_prob: float
    score: float
