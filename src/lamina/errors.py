"""Errors a user can act on, each with the exit code of the command."""

from __future__ import annotations

from dataclasses import dataclass


class LaminaError(Exception):
    """Base class; the message says what went wrong, where, and how to fix it.

    Example:
        >>> try:
        ...     lamina.load("runs/firts")
        ... except lamina.LaminaError as error:
        ...     print(error)
        runs/firts: not found. Did you mean `runs/first`?
    """

    exit_code = 1


class UsageError(LaminaError):
    """Invalid flag, name or option."""

    exit_code = 2


class DataError(LaminaError):
    """A missing, damaged or unsuitable file."""

    exit_code = 3


class KilledProcessError(DataError):
    """A process of ours was killed; what is finished stays, and the same command resumes."""


class DivergenceError(LaminaError):
    """Training diverged."""

    exit_code = 4


class MissingExtraError(LaminaError):
    """An optional dependency is not installed."""

    exit_code = 5

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs an extra: pip install 'lamina[{extra}]'")


class StoppedError(LaminaError):
    """Stopped on request after saving; can be resumed."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


@dataclass(frozen=True)
class Problem:
    """One problem of a configuration: the dotted key and what its value must be."""

    key: str
    message: str

    def __str__(self) -> str:
        return f"{self.key}: {self.message}" if self.key else self.message


class ConfigurationError(UsageError):
    """All problems of a configuration."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems
