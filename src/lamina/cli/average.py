"""`lamina average`: checkpoint averaging."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lamina.cli.next_step import say_next
from lamina.errors import UsageError


def average(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run folder.")],
    last: Annotated[
        int | None, typer.Option("--last", metavar="K", min=1, help="Average the last K checkpoints.")
    ] = None,
    steps: Annotated[str | None, typer.Option("--steps", help="Average the checkpoints of these steps: a,b,c.")] = None,
) -> None:
    """Average checkpoints into RUN/averaged, a model folder.

    [bold]Examples[/bold]

        lamina average runs/first --last 10

        lamina average runs/first --steps 7000,7500,8000
    """
    from lamina.training.averaging import average as average_checkpoints

    try:
        chosen = None if steps is None else [int(step) for step in steps.split(",")]
    except ValueError as error:
        raise UsageError(f"--steps must be comma-separated numbers, but is `{steps}` instead.") from error
    out, used = average_checkpoints(run, last=last, steps=chosen)
    print(f"{out}: the average of steps {', '.join(map(str, used))}")
    say_next("lamina", "translate", out)
