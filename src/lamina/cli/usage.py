"""One-line messages for command-line errors: the problem, the closest known name, and where to look."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import Any

import typer

from lamina.names import nearest

RESUMING = ("--resume", "--continue", "--restore")  # options of other programs

# Depending on the version, typer depends on click or bundles it; the names of the errors are the same.
CommandLineError: type[Exception] = typer.BadParameter.__mro__[1]
MissingValueError: type[Exception] = vars(sys.modules[CommandLineError.__module__])["BadOptionUsage"]


def explain(error: Any, root: Any, words: Sequence[str]) -> str:
    """Explain an error of click; `root` is the top-level command, `words` are the arguments after `lamina`."""
    path, command, rest = find_command(root, words)
    match type(error).__name__:
        case "NoSuchOption":
            message = f"{unknown_option(error, command, words)} See `{path} --help`."
        case "BadOptionUsage":
            message = f"{wrong_number(error, command)} {show_example(path, command, error.option_name)}"
        case "MissingParameter":
            message = f"{describe(error.param)} is required. {show_example(path, command, error.param.opts[0])}"
        case "BadParameter":
            message = bad_value(error)
        case _ if hasattr(command, "commands"):
            message = f"{unknown_command(command, rest)} See `{path} --help`."
        case _:
            message = f"{too_many(error)} {show_example(path, command)}"
    return f"{path}: {message}"


def find_command(root: Any, words: Sequence[str]) -> tuple[str, Any, list[str]]:
    """Return the full name of the command, the command and its arguments."""
    path, command, rest = "lamina", root, list(words)
    while rest and hasattr(command, "commands"):
        if rest[0] in command.commands:
            path, command = f"{path} {rest[0]}", command.commands[rest[0]]
        elif not rest[0].startswith("-"):
            break
        rest.pop(0)
    return path, command, rest


def unknown_command(command: Any, words: Sequence[str]) -> str:
    """Name the unknown command, if there is one, and the closest known one."""
    return f"unknown command `{words[0]}`.{nearest(words[0], command.commands)}" if words else "a command is missing."


def unknown_option(error: Any, command: Any, words: Sequence[str]) -> str:
    """Name the option as typed (for `-data`, click reports only `-d`) and the closest known one."""
    given = [word.split("=")[0] for word in words]
    typed = next((word for word in given if word.startswith(error.option_name)), error.option_name)
    if typed in RESUMING:
        return f"unknown option `{typed}`: to resume, rerun the same command."
    known = [name for option in command.params for name in option.opts if name.startswith("-")]
    return f"unknown option `{typed}`.{nearest(typed, [*known, '--help'])}"


def wrong_number(error: Any, command: Any) -> str:
    """Explain an option with too few values, or a flag with a value."""
    option = next((each for each in command.params if error.option_name in each.opts), None)
    if option is None or option.is_flag:  # None is --help, which is not in `params`
        return f"{error.option_name} takes no value."
    needed = "a value" if option.nargs == 1 else f"{option.nargs} values"
    return f"{describe(option)} needs {needed}."


def describe(parameter: Any) -> str:
    """Format a parameter as in the help: RECIPE, or --test SRC TGT."""
    metavar = parameter.metavar or ""
    if parameter.param_type_name == "argument":
        return str(metavar or parameter.name.upper())
    return f"{parameter.opts[0]} {metavar}".strip()


def bad_value(error: Any) -> str:
    """Explain an invalid value; newer versions of typer report pydantic's message."""
    from pydantic import ValidationError

    name = error.param.opts[0] if error.param.param_type_name == "option" else describe(error.param)
    message = error.message.removeprefix("Value error, ").rstrip(".")
    if " is not one of " in message:
        given, *known = re.findall(r"'([^']*)'", message)
        choices = ", ".join(f"`{each}`" for each in known)
        return f"{name} must be one of {choices}, but is `{given}` instead."
    if isinstance(error.__cause__, ValidationError):
        constraint = message.replace("Input should be", "must be").split(",")[0]
        return f"{name} {constraint}, but is `{error.__cause__.errors()[0]['input']}` instead."
    return f"{name}: {message}."


def too_many(error: Any) -> str:
    """Name unexpected arguments, which click lists in brackets."""
    extra = re.search(r"unexpected extra argument.*? \((.*)\)", error.message)
    if extra is None:
        return str(error.format_message())
    for option, key, value in zip(sys.argv, sys.argv[1:], sys.argv[2:], strict=False):
        if option == "--set" and "=" not in key and value in extra[1].split():
            return f"--set needs KEY=VALUE: --set {key}={value}."
    return f"unexpected argument{'s' if ' ' in extra[1] else ''} `{extra[1]}`."


def show_example(path: str, command: Any, option: str = "") -> str:
    """Return the first example in the command's help, preferably one with the option."""
    lines = [line.strip() for line in (command.help or "").splitlines()]
    examples = [line for line in lines if line.startswith(f"{path} ")]
    fitting = [line for line in examples if option in line.split()]
    return f"Example: {(fitting or examples)[0]}" if examples else f"See `{path} --help`."
