"""Generate reference pages from the code: command line, recipe, Python API."""

from __future__ import annotations

import inspect
import json
import pkgutil
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, is_typeddict

import typer.main

import lamina
from lamina.cli import app
from lamina.model.config import SOCKETS, ModelConfig
from lamina.model.decoder import DecoderSettings
from lamina.recipe.decode import SearchSettings
from lamina.recipe.json_schema import comments, properties, recipe_schema
from lamina.recipe.schema import TrainSettings

FIRST = ["prepare", "train", "load", "evaluate", "compare", "score", "build", "save"]  # others follow by name
MORE = [  # not exported by the package
    "lamina.scoring.evaluation.LoadingOptions",
    "lamina.scoring.evaluation.DecodingOptions",
    "lamina.recipe.decode.SearchSettings",
    "lamina.model.seq2seq.Seq2Seq",
    "lamina.model.states.Loss",
    "lamina.corpus.prepared.Split",
    "lamina.text.pipeline.TextPipeline",
    "lamina.text.pipeline.LanguageText",
    "lamina.scoring.compare.compare_outputs",
    "lamina.scoring.compare.Row",
    "lamina.scoring.protocol.Gold",
    "lamina.demo.grammar.demo_pairs",
    "lamina.demo.grammar.write_demo",
]
INTERNAL = {  # public in the package, but of no use in a script
    *("Run.facts", "Run.lock", "Run.check", "Run.begin", "Run.write_model", "Translator.facts"),
    *("Split.lengths", "TextPipeline.save", "TextPipeline.load", "TextPipeline.digests", "TextPipeline.for_documents"),
    *(
        "LanguageText.truncate",
        "LanguageText.clean",
        "Translator.to_translation",
        "Finding.paths",
        "Finding.parts",
        "Finding.texts",
    ),
    "Finding.as_section",
}
WIDTH = 78  # maximum width of a signature, which fits a 1366-pixel window
NO_BREAK = "\u00a0"  # space
KINDS = {int: "N", float: "X", Path: "PATH", str: "TEXT"}
HEADINGS = "| key | type | default | meaning |\n|---|---|---|---|"


def pages() -> dict[str, Iterator[str]]:
    """Lines of each page, by name."""
    return {"commands": commands(), "recipe": recipe(), "python": python()}


def commands() -> Iterator[str]:
    """Document each command: help, arguments, options and defaults."""
    root: Any = typer.main.get_command(app)
    yield f"# The command line\n\n`lamina COMMAND …`, or `python -m lamina COMMAND …`. {help_text(root)}\n"
    yield "`lamina --version` prints the version. `--debug`, in any position, shows a traceback when a command fails."
    yield "Results go to stdout, everything else to stderr.\n"
    for name, top in root.commands.items():
        subcommands = getattr(top, "commands", {})
        for path, command in [(name, top), *((f"{name} {each}", subcommands[each]) for each in subcommands)]:
            yield f"{'#' * (2 + path.count(' '))} lamina {path}\n\n{help_text(command)}\n"
            if command.params:
                rows = [describe_parameter(command.callback, parameter) for parameter in command.params]
                yield "\n".join(["| argument or option | default | meaning |\n|---|---|---|", *rows, ""])


def help_text(command: Any) -> str:
    """Convert a command's help to Markdown, with all examples in one block."""
    text = re.sub(r"\[(/?)bold\]", "**", inspect.cleandoc(command.help or ""))
    return re.sub(r"(\n    .+)\n(?=\n    )", r"\1", text)


def describe_parameter(function: Any, parameter: Any) -> str:
    """Table row of a command's parameter."""
    kind: Any = inspect.signature(function, eval_str=True).parameters[parameter.name].annotation
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    while type(None) in get_args(kind) or get_origin(kind) is list:
        kind = get_args(kind)[0]
    shape = "|".join(get_args(kind)) if get_origin(kind) is Literal else KINDS.get(kind, "")
    option = parameter.opts[0] if parameter.opts[0].startswith("--") else ""
    name = f"{option} {parameter.metavar or (shape if option else parameter.name.upper())}".strip()
    value = " ".join(map(str, parameter.default)) if isinstance(parameter.default, tuple) else parameter.default
    default = "" if value is None or value is False or value == "" else f"`{value}`"
    if parameter.required or isinstance(parameter.show_default, str):
        default = "required" if parameter.required else parameter.show_default
    return f"| `{name}` | {default.replace(' ', NO_BREAK)} | {mark(parameter.help or '')} |"


def mark(text: str) -> str:
    """Mark options and numbers in plain text as code, and exponents."""
    parts = re.split(r"(`[^`]*`)", text)
    for index in range(0, len(parts), 2):
        marked = re.sub(r"(?<![\w.-])(--[a-z][\w-]*|\de-\d+)", r"`\1`", parts[index])
        parts[index] = re.sub(r"\^(\w+)", r"<sup>\1</sup>", marked)
    return "".join(parts)


def recipe() -> Iterator[str]:
    """Document each key of a recipe: type, default, meaning."""
    schema = recipe_schema()["properties"]
    yield "# The recipe\n\nA recipe is a YAML file. All keys are optional; defaults come from `system` and `size`,"
    yield "or from this page.\n"
    yield f"{HEADINGS}\n| `name` | text | the file's name | name of the run |"
    yield f"| `system` | {kind_of(schema['system'])} | `null` | a published system; the other keys override it |"
    yield f"\n## `model`\n\n{HEADINGS}"
    yield f"| `size` | {kind_of(schema['model']['properties']['size'])} | `base` | default dimensions and depths |"
    yield from rows(ModelConfig, set(schema["model"]["properties"]) - {*SOCKETS, "decoder"})
    parts: dict[str, Any] = {"model.decoder": DecoderSettings, "train": TrainSettings, "decode": SearchSettings}
    for socket, choices in SOCKETS.items():
        yield f"\n## `model.{socket}`\n\n`type` is one of {', '.join(f'`{name}`' for name in choices)}."
        for name, settings in choices.items():
            found = list(rows(settings, set(properties(settings)) - {"type"}))
            meaning = (settings.__doc__ or "").partition("`. ")[2]
            yield "\n".join(
                [f"\n### `type: {name}`\n\n{meaning}\n", *([HEADINGS, *found] if found else ["No options."])]
            )
    for key, settings in parts.items():
        yield "\n".join([f"\n## `{key}`\n\n{HEADINGS}", *rows(settings, set(properties(settings)))])


def rows(settings: type[Any], keys: set[str]) -> Iterator[str]:
    """Yield a row per key, in source order."""
    for name, option in properties(settings).items():
        if name in keys:
            default = f"`{json.dumps(option['default'])}`".replace('"', "") if "default" in option else "from the size"
            if "description" not in option:
                raise ValueError(f"{settings.__name__}.{name}: has no comment that says what it means.")
            meaning = re.sub("^[A-Z](?=[a-z])", lambda first: first[0].lower(), option["description"])
            yield f"| `{name}` | {kind_of(option)} | {default} | {mark(meaning.rstrip('.'))} |"


def kind_of(option: dict[str, Any]) -> str:
    """Describe a JSON schema in words."""
    if "anyOf" in option:
        return " or ".join(kind_of(each) for each in option["anyOf"])
    if "enum" in option or "const" in option:
        return ", ".join(f"`{each}`" for each in option.get("enum", [option.get("const")]))
    if option["type"] == "array":
        kinds = list(dict.fromkeys(kind_of(each) for each in option.get("prefixItems") or [option["items"]]))
        if len(kinds) > 1:
            return f"list: {', then '.join(kinds)}"
        return "list of " + re.sub("^(integer|number)", r"\1s", kinds[0])
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    bounds = ", ".join(f"{sign}{NO_BREAK}{option[bound]:,.10g}" for bound, sign in signs.items() if bound in option)
    names = {"boolean": "`true`, `false`", "null": "`null`", "string": "text"}
    return f"{names.get(option['type'], option['type'])} {bounds}".strip()


def python() -> Iterator[str]:
    """Document the Python API: signatures, docstrings and fields."""
    yield "# Python\n\n`import lamina` does not import torch; its functions import it when they need it.\n"
    names = sorted(set(lamina.__all__) - {"__version__", "analyze", *FIRST})
    functions = [*FIRST, *(name for name in names if inspect.isfunction(getattr(lamina, name)))]
    yield "## Functions"
    yield from (entry(f"lamina.{name}") for name in functions)
    yield f"\n## Analyses\n\n{docstring(lamina.analyze)}"
    yield from (entry(f"lamina.analyze.{name}") for name in lamina.analyze.__all__)
    yield "\n## Classes"
    yield from (entry(f"lamina.{name}") for name in names if name not in functions)
    yield "\n## Other modules"
    yield from (entry(name) for name in MORE)


def entry(name: str) -> str:
    """Document a function, or a class with its fields and methods."""
    thing: Any = pkgutil.resolve_name(name)
    heading = name.replace(".", ".<wbr>")  # where a phone may break it
    if not inspect.isclass(thing):
        return f"\n### {heading}\n\n{signature(thing)}"
    parts = [f"\n### {heading}\n\n{docstring(thing)}\n"]
    meaning = comments(thing) if thing.__module__.startswith("lamina.") else {}
    fields = [each for each in getattr(thing, "__dataclass_fields__", {}).values() if not each.name.startswith("_")]
    parts += [f"- `{each.name}: {each.type}` {meaning.get(each.name, '')}" for each in fields]
    if is_typeddict(thing):
        parts += [f"- `{key}: {kind.__forward_arg__}`" for key, kind in thing.__annotations__.items()]
    members = [(name, member) for name, member in vars(thing).items() if not name.startswith("_")]
    parts += [f"- `{name}` {summary(member)}" for name, member in members if isinstance(member, property)]
    parts += [f"\n#### {thing.__name__}.{name}\n\n{signature(member)}" for name, member in members if is_public(member)]
    return "\n".join(parts)


def summary(thing: Any) -> str:
    """First line of a docstring."""
    return (inspect.getdoc(thing) or "").partition("\n")[0]


def is_public(member: Any) -> bool:
    """Whether a class member is a function of Lamina for users."""
    named = inspect.isfunction(member) and member.__module__.startswith("lamina.") and member.__name__[0] != "_"
    return named and member.__qualname__ not in INTERNAL


def signature(function: Any) -> str:
    """Signature of a function, one parameter per line if it is long, and its docstring."""
    found = inspect.signature(function)
    parts: list[str] = []
    for parameter in found.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not any(part.startswith("*") for part in parts):
            parts.append("*")
        if parameter.name != "self":
            parts.append(as_written(parameter))
    returned = f" -> {found.return_annotation}" if found.return_annotation is not found.empty else ""
    call = f"{function.__name__}({', '.join(parts)}){returned}"
    if len(call) > WIDTH:
        call = "\n".join([f"{function.__name__}(", *(f"    {part}," for part in parts), f"){returned}"])
    return f"```python\n{call}\n```\n\n{docstring(function)}"


def as_written(parameter: inspect.Parameter) -> str:
    """Format a parameter with its annotation as in the source, which `str` would quote."""
    bare = str(parameter.replace(annotation=parameter.empty, default=parameter.empty))
    typed = "" if parameter.annotation is parameter.empty else f": {parameter.annotation}"
    default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
    return f"{bare}{typed}{default}"


def docstring(thing: Any) -> str:
    """Convert a docstring to Markdown, with examples as code blocks."""
    text = inspect.getdoc(thing) or ""
    text = re.sub(r"\^`(\w+)`", r"<sup>\1</sup>", re.sub(r"(?m)^Examples?:\n", "\n", text))
    return re.sub(r"(?m)(?:^ *>>> .*\n?(?:^ *\S.*\n?)*)+", as_code, text)


def as_code(found: re.Match[str]) -> str:
    """Convert a doctest to a code block."""
    return f"```pycon\n{textwrap.dedent(found.group()).rstrip()}\n```\n"
