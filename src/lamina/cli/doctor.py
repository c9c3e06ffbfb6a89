"""`lamina doctor`: checks of the installation and the machine."""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from typing import Annotated, Any

import typer

from lamina.cli.systems import print_json
from lamina.cli.tables import print_columns


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    gpu: Annotated[
        bool, typer.Option("--gpu", help="Train three systems briefly on the GPU and compare with the CPU.")
    ] = False,
) -> None:
    """Show versions, devices and extras, and run a tiny model. Exits with code 1 if a required component fails.

    [bold]Examples[/bold]

        lamina doctor

        lamina doctor --json

        lamina doctor --gpu
    """
    from lamina.doctor import examine, examine_gpus

    findings = examine_gpus() if gpu else examine()
    broken = [finding.name for finding in findings if finding.needed and not finding.works]
    if as_json:
        content: dict[str, Any] = {"works": not broken}
        for finding in findings:
            section = content.setdefault(finding.section, {})
            section[finding.name] = {"found": finding.found, "works": finding.works, "needed": finding.needed}
        print_json(content)
    else:
        rows = []
        for section, group in groupby(findings, key=attrgetter("section")):
            for number, finding in enumerate(group):
                rows.append(("" if number else section, finding.name, finding.found))
        print_columns(rows)
        print(f"\n{'Not working: ' + ', '.join(broken) if broken else 'All required components work'}.")
    raise typer.Exit(1 if broken else 0)
