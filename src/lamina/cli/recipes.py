"""`lamina recipes`: what a recipe may hold."""

from __future__ import annotations

import json

import typer

recipes = typer.Typer(no_args_is_help=True, help="Recipes, and what they may hold.")


@recipes.callback()
def choose() -> None:
    """Recipes, and what they may hold."""


@recipes.command("schema")
def schema() -> None:
    """Print the JSON schema of recipes, with which an editor completes and checks them.

    [bold]Example[/bold]

        lamina recipes schema > recipe.schema.json
    """
    from lamina.recipe.json_schema import recipe_schema

    print(json.dumps(recipe_schema(), indent=2, ensure_ascii=False))
