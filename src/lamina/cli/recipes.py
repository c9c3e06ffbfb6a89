"""`lamina recipes`: shipped recipes and the recipe schema."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Annotated

import typer

from lamina.cli.command import Command, Group
from lamina.cli.next_step import say_next
from lamina.errors import UsageError

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of a shipped recipe; `lamina recipes` lists all.")]

recipes = typer.Typer(cls=Group, invoke_without_command=True)


@recipes.callback()
def choose(context: typer.Context) -> None:
    """List, show and copy the shipped recipes; print the recipe schema.

    [bold]Examples[/bold]

        lamina recipes

        lamina recipes show multi30k-en-de-msc

        lamina recipes copy multi30k-en-de-msc --out recipe.yaml
    """
    if context.invoked_subcommand is None:
        list_recipes()


@recipes.command("list", cls=Command)
def list_recipes() -> None:
    """List the shipped recipes: system, task, model size, and whether a CPU is enough.

    [bold]Example[/bold]

        lamina recipes list
    """
    from lamina.cli.tables import print_columns
    from lamina.recipe.shipped import ShippedRecipe, shipped_names

    rows = [("recipe", "system", "task", "size", "runs on")]
    for recipe in map(ShippedRecipe, shipped_names()):
        content, head = recipe.content, recipe.head
        rows.append((recipe.name, content["system"], head["Task"], content["model"]["size"], head["Runs on"]))
    print_columns(rows)
    say_next("lamina", "recipes", "show", "multi30k-en-de-surface-fusion")


@recipes.command("show", cls=Command)
def show(name: Name) -> None:
    """Print a shipped recipe with its comments.

    [bold]Example[/bold]

        lamina recipes show multi30k-en-de-msc
    """
    from lamina.recipe.shipped import shipped_recipe

    print(shipped_recipe(name).text, end="")


@recipes.command("copy", cls=Command)
def copy(
    name: Name,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Output file.", show_default="NAME.yaml")
    ] = None,
) -> None:
    """Copy a shipped recipe to a file for editing; an existing file is never overwritten.

    [bold]Examples[/bold]

        lamina recipes copy multi30k-en-de-msc

        lamina recipes copy multi30k-en-de-msc --out recipe.yaml
    """
    from lamina.recipe.shipped import SUFFIX, shipped_recipe

    recipe = shipped_recipe(name)
    out = out or Path(f"{name}{SUFFIX}")
    try:
        with out.open("x", encoding="utf-8", newline="\n") as file:
            file.write(recipe.text)
    except FileExistsError as error:
        raise UsageError(f"{out}: already exists; choose another --out or remove it.") from error
    print(out)
    words = [str(out) if word == name else word for word in shlex.split(recipe.head["Train"])]
    if Path(words[words.index("--data") + 1]).is_dir():  # otherwise there is no data to train on yet
        say_next(*words)


@recipes.command("schema", cls=Command)
def schema() -> None:
    """Print the JSON schema of recipes, for completion and validation in editors.

    [bold]Example[/bold]

        lamina recipes schema > recipe.schema.json
    """
    from lamina.recipe.json_schema import recipe_schema

    print(json.dumps(recipe_schema(), indent=2, ensure_ascii=False))
