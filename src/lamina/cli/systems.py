"""`lamina systems`: the published systems, their sockets, sizes and parameter counts."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any

import typer

from lamina.cli.next_step import say_next
from lamina.cli.tables import print_columns
from lamina.errors import UsageError
from lamina.names import nearest
from lamina.systems.published import IWSLT_VOCABULARY, SIZES, SYSTEMS, Configuration, System, find_configuration


def systems(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="System or configuration; omit it to list all systems.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """List the systems, or show one with its parameter counts.

    [bold]Examples[/bold]

        lamina systems

        lamina systems msc

        lamina systems msc-72 --json
    """
    if name is None:
        return print_json([describe_system(each, SYSTEMS[each]) for each in SYSTEMS]) if as_json else print_systems()
    if name in SYSTEMS:
        content = {**describe_system(name, SYSTEMS[name]), "sizes": describe_sizes(name)}
    else:
        found = find_configuration(name)
        if found is None:
            known = [*SYSTEMS, *(each for entry in SYSTEMS.values() for each in entry.configurations)]
            raise UsageError(f"Unknown system `{name}`.{nearest(name, known)} `lamina systems` lists all systems.")
        system, configuration = found
        content = {**describe_system(system, SYSTEMS[system]), "name": name, "system": system}
        del content["configurations"]
        content.update(describe_configuration(system, name, configuration))
    return print_json(content) if as_json else print_content(content)


def describe_system(name: str, system: System) -> dict[str, Any]:
    """Describe a system for JSON; keys are in display order."""
    decoder = {"attention": "self", "wiring": "residual", **system.decoder}
    return {
        "name": name,
        "paper": system.paper,
        "encoder": system.encoder,
        "bridge": system.bridge,
        "head": system.head,
        "decoder": decoder,
        "norm": system.norm,
        "init": system.init,
        "configurations": [
            describe_configuration(name, each, configuration) for each, configuration in system.configurations.items()
        ],
    }


def describe_configuration(system: str, name: str, configuration: Configuration) -> dict[str, Any]:
    """Describe a configuration for JSON, with counted and published parameters."""
    return {
        "name": name,
        "size": configuration.size,
        "vocab_size": configuration.vocab_size,
        "encoder_layers": configuration.encoder_layers,
        "decoder_layers": SIZES[configuration.size]["decoder"]["layers"],
        "parameters": count(system, configuration.size, configuration.vocab_size, configuration.encoder_layers),
        "published_parameters": configuration.published_parameters,
    }


def describe_sizes(system: str) -> dict[str, int]:
    """Parameters at each size, with the same vocabulary for comparison."""
    return {size: count(system, size, IWSLT_VOCABULARY, SIZES[size]["encoder"]["layers"]) for size in SIZES}


def count(system: str, size: str, vocab_size: int, encoder_layers: int) -> int:
    """Count a system's parameters; imports torch lazily."""
    from lamina.systems.build import count_parameters, resolve

    return count_parameters(resolve(system, size, vocab_size, {"encoder": {"layers": encoder_layers}}))


def print_json(content: Any) -> None:
    """Print JSON to stdout."""
    print(json.dumps(content, indent=2, ensure_ascii=False))


def print_systems() -> None:
    """Print one row per system."""
    rows = [("system", "encoder", "bridge", "head", "decoder", "norm", "paper")]
    for name, system in SYSTEMS.items():
        choices = {"attention": "self", **system.decoder}
        wired, tied = choices.get("wiring") == "dlcl", choices.get("tie_encoder")
        decoder = f"{choices['attention']}{', dlcl wiring' if wired else ''}{', tied' if tied else ''}"
        authors = re.split("[,:]", system.paper)[0]
        rows.append((name, system.encoder, system.bridge, system.head, decoder, system.norm, authors))
    print_columns(rows)
    print(
        "\nAny encoder, bridge and head can be combined, but bridge `collaborative` needs encoder `msc`, and bridge\n"
        "`grown` needs encoder `grown`. `layerwise` needs equal depths; for `blocks` and `msc` the encoder's depth\n"
        f"must be a multiple of the decoder's, unless block sizes are given. Sizes: {', '.join(SIZES)}."
    )
    say_next("lamina", "systems", "msc")


def print_content(content: dict[str, Any]) -> None:
    """Print one line per entry, with thousands separators."""
    rows: list[tuple[str, ...]] = []
    for key, value in content.items():
        if key == "configurations":
            for each in value:
                stated = f" (paper: {each['published_parameters']})" if each["published_parameters"] else ""
                rows.append((each["name"], f"{each['parameters']:,} parameters{stated}"))
        elif key == "sizes":
            for size, parameters in value.items():
                rows.append((size, f"{parameters:,} parameters at {IWSLT_VOCABULARY:,} vocabulary entries"))
        elif isinstance(value, dict):
            rows.append((key, ", ".join(f"{name} {choice}" for name, choice in value.items())))
        elif value is not None:
            rows.append((key, f"{value:,}" if isinstance(value, int) else str(value)))
    print_columns(rows)
