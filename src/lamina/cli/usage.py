"""Command-line errors in one line: what is wrong, the nearest name, where to look."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import typer

from lamina.names import nearest

RESUMING = ("--resume", "--continue", "--restore")  # what other programs have

# Click is beside typer or inside it, depending on its version; the names of its errors are the same in both.
CommandLineError: type[Exception] = typer.BadParameter.__mro__[1]


def explain(error: Any, whole: Any, words: Sequence[str]) -> str:
    """Explain an error of click about the words after `lamina`; `whole` is the root command."""
    path, command, rest = find_verb(whole, words)
    match type(error).__name__:
        case "NoSuchOption":
            said = f"{unknown_option(error, command, words)} See `{path} --help`."
        case "BadOptionUsage":
            said = f"{wrong_number(error, command)} {show_example(path, command, error.option_name)}"
        case "MissingParameter":
            said = f"{describe(error.param)} is required. {show_example(path, command, error.param.opts[0])}"
        case "BadParameter":
            said = bad_value(error)
        case _ if hasattr(command, "commands"):
            said = f"{unknown_verb(command, rest)} See `{path} --help`."
        case _:
            said = f"{too_many(error)} {show_example(path, command)}"
    return f"{path}: {said}"


def find_verb(whole: Any, words: Sequence[str]) -> tuple[str, Any, list[str]]:
    """The name of the command, the command itself, and the words after it."""
    path, command, rest = "lamina", whole, list(words)
    while rest and hasattr(command, "commands"):
        if rest[0] in command.commands:
            path, command = f"{path} {rest[0]}", command.commands[rest[0]]
        elif not rest[0].startswith("-"):
            break
        rest.pop(0)
    return path, command, rest


def unknown_verb(command: Any, words: Sequence[str]) -> str:
    """The verb as it was typed, if there is one, and the nearest there is."""
    return f"unknown command `{words[0]}`.{nearest(words[0], command.commands)}" if words else "a command is missing."


def unknown_option(error: Any, command: Any, words: Sequence[str]) -> str:
    """The option as it was typed (click names the first letter of `-data`) and the nearest there is."""
    given = [word.split("=")[0] for word in words]
    typed = next((word for word in given if word.startswith(error.option_name)), error.option_name)
    if typed in RESUMING:
        return f"unknown option `{typed}`: to resume, rerun the same command."
    known = [name for option in command.params for name in option.opts if name.startswith("-")]
    return f"unknown option `{typed}`.{nearest(typed, [*known, '--help'])}"


def wrong_number(error: Any, command: Any) -> str:
    """An option with too few values, or a switch with one."""
    option = next((each for each in command.params if error.option_name in each.opts), None)
    if option is None or option.is_flag:  # None is --help, which click keeps elsewhere
        return f"{error.option_name} takes no value."
    needed = "a value" if option.nargs == 1 else f"{option.nargs} values"
    return f"{describe(option)} needs {needed}."


def describe(parameter: Any) -> str:
    """RECIPE, or --test SRC TGT: as the help writes it."""
    metavar = parameter.metavar or ""
    if parameter.param_type_name == "argument":
        return str(metavar or parameter.name.upper())
    return f"{parameter.opts[0]} {metavar}".strip()


def bad_value(error: Any) -> str:
    """What the value must be; newer versions of typer report pydantic's words."""
    from pydantic import ValidationError

    name = error.param.opts[0] if error.param.param_type_name == "option" else describe(error.param)
    message = error.message.removeprefix("Value error, ").rstrip(".")
    if " is not one of " in message:
        given, *known = re.findall(r"'([^']*)'", message)
        choices = ", ".join(f"`{each}`" for each in known)
        return f"{name} must be one of {choices}, but is `{given}` instead."
    if isinstance(error.__cause__, ValidationError):
        must = message.replace("Input should be", "must be").split(",")[0]
        return f"{name} {must}, but is `{error.__cause__.errors()[0]['input']}` instead."
    return f"{name}: {message}."


def too_many(error: Any) -> str:
    """Words that no argument takes; click has them between brackets."""
    extra = re.search(r"unexpected extra argument.*\((.*)\)", error.message)
    return f"unexpected argument `{extra[1]}`." if extra else str(error.format_message())


def show_example(path: str, command: Any, option: str = "") -> str:
    """The verb's first example in its help, if possible one with an option."""
    lines = [line.strip() for line in (command.help or "").splitlines()]
    examples = [line for line in lines if line.startswith(f"{path} ")]
    fitting = [line for line in examples if option in line.split()]
    return f"Example: {(fitting or examples)[0]}" if examples else f"See `{path} --help`."
