"""Options shared by several commands, and search options generated from `SearchSettings`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from types import GenericAlias
from typing import Annotated, Any, Literal, get_args, get_origin

import typer
from pydantic.fields import FieldInfo

from lamina.errors import UsageError
from lamina.names import flag
from lamina.recipe.decode import SearchSettings
from lamina.scoring.metrics import METRICS

Device = Annotated[Literal["auto", "cpu", "cuda"], typer.Option("--device", help="Device to run on.")]
Threads = Annotated[
    int | None, typer.Option("--threads", min=1, max=1024, help="CPU threads.", show_default="one per core")
]
Checkpoint = Annotated[str, typer.Option("--checkpoint", help="Checkpoint of a run: best, last or a step.")]
Int8 = Annotated[bool, typer.Option("--int8", help="Compute matrix products in 8 bits (CPU).")]
ShortlistFolder = Annotated[
    Path | None,
    typer.Option(
        "--shortlist", help="Folder written by `lamina shortlist`: decode faster with a restricted vocabulary."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Lowercase = Annotated[bool, typer.Option("--lowercase", help="Ignore case.")]
Metrics = Annotated[
    list[str] | None,
    typer.Option(
        "--metric",
        help=f"{', '.join(METRICS)}; repeatable, or comma-separated.",
        show_default="bleu,chrf",
    ),
]
Tokenize = Annotated[
    str | None,
    typer.Option("--tokenize", help="BLEU tokenizer, by its sacreBLEU name.", show_default="by target language"),
]
Sources = Annotated[Path | None, typer.Option("--source", help="Source text (required by gleu).")]
OnCluster = Annotated[
    Literal["local", "slurm"] | None,
    typer.Option("--cluster", help="Run as jobs, on Slurm or on this machine (extra `cluster`)."),
]
ClusterOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--cluster-option", metavar="KEY=VALUE", help="Submitit parameter, such as slurm_partition=gpu; repeatable."
    ),
]
Command = Callable[..., None]


LOADING: dict[str, tuple[Any, Any]] = {  # annotation and default
    "checkpoint": (Checkpoint, "best"),
    "int8": (Int8, False),
    "shortlist": (ShortlistFolder, None),
    "device": (Device, "auto"),
    "threads": (Threads, None),
}


def with_search_options(command: Command) -> Command:
    """Replace a command's `search` parameter with one option per search setting; it receives their values as a dict."""
    return _expand(command, "search", _search_options())


def with_decoding_options(command: Command) -> Command:
    """Replace a command's `decoding` parameter with the search options and those of loading a run."""
    loading = [_keyword(name, annotation, default) for name, (annotation, default) in LOADING.items()]
    return _expand(command, "decoding", [*_search_options(), *loading])


def given_options(decoding: dict[str, Any]) -> list[str]:
    """Flags of the decoding options that do not have their defaults."""
    return [flag(name) for name, value in decoding.items() if value != LOADING.get(name, (None, None))[1]]


def _expand(command: Command, placeholder: str, options: list[inspect.Parameter]) -> Command:
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        parameters += options if parameter.name == placeholder else [parameter]

    @functools.wraps(command)
    def with_options(**arguments: Any) -> None:
        values = {option.name: arguments.pop(option.name) for option in options}
        if values["diversity"] is not None and values["diverse_groups"] is None:
            raise UsageError("--diversity requires --diverse-groups.")
        command(**{placeholder: values}, **arguments)

    keyword_only = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
    with_options.__signature__ = inspect.Signature(keyword_only)  # type: ignore[attr-defined]
    with_options.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return with_options


def _search_options() -> list[inspect.Parameter]:
    return [_search_option(name, field) for name, field in SearchSettings.model_fields.items()]


def _keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _search_option(name: str, field: FieldInfo) -> inspect.Parameter:
    bounds = {type(each).__name__: each for each in field.metadata}
    minimum, maximum = getattr(bounds.get("Ge"), "ge", None), getattr(bounds.get("Le"), "le", None)
    kind: Any = field.annotation
    default = str(field.default)
    metavar = None
    if get_origin(kind) is tuple:
        kind = GenericAlias(tuple, tuple(get_args(part)[0] for part in get_args(kind)))
        metavar, default = "A B", " ".join(map(str, field.default))
    option = typer.Option(
        flag(name),
        help=field.description,
        min=minimum,
        max=maximum,
        metavar=metavar,
        show_default=f"the run's, else {default}",
    )
    return _keyword(name, Annotated[kind | None, option], None)
