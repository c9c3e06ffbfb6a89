"""From a YAML file and overrides to a recipe, or to every problem with file, line, key and nearest name."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from lamina.base.problems import describe
from lamina.base.yaml_files import compose_yaml, read_yaml
from lamina.corpus.prepared import PreparedData
from lamina.errors import DataError, Problem, UsageError
from lamina.names import nearest
from lamina.recipe.schema import Recipe
from lamina.recipe.shipped import find_recipe
from lamina.systems.published import SIZES, SYSTEMS, settings

KEYS = ("name", "system", "model", "train", "decode")
OVERRIDE = "--set"


class RecipeError(UsageError):
    """Every problem of a recipe, each on a line with its place."""


class Source:
    """A recipe's content, and the place of every key: a line of the file, or the command line."""

    def __init__(self, path: Traversable) -> None:
        self.path = path
        try:
            text = path.read_text(encoding="utf-8")
            node = compose_yaml(text)
            self.content: Any = read_yaml(text)
        except FileNotFoundError as error:
            raise RecipeError(f"{path}: not found.") from error
        except OSError as error:
            raise RecipeError(f"{path}: cannot be read ({error.strerror}).") from error
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            mark = getattr(error, "problem_mark", None)
            place = f"{path}:{mark.line + 1}" if mark is not None else str(path)
            raise RecipeError(f"{place}: not YAML: {getattr(error, 'problem', None) or error}.") from error
        if not isinstance(self.content, dict):
            raise RecipeError(f"{path}: must be a mapping with keys such as `system`, `model` and `train`.")
        self.places: dict[str, str] = {}
        self._record(node, "")

    def _record(self, node: Any, prefix: str) -> None:
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                path = f"{prefix}{key.value}"
                self.places[path] = f"{self.path.name}:{key.start_mark.line + 1}"
                self._record(value, f"{path}.")

    def override(self, assignment: str) -> None:
        """Apply one `key.path=value`; the value is YAML."""
        key, equals, value = assignment.partition("=")
        if not equals or not key:
            raise UsageError(f"{OVERRIDE} must be key.path=value, but is `{assignment}` instead.")
        *parents, last = key.split(".")
        place: Any = self.content
        for parent in parents:
            place = place.setdefault(parent, {}) if isinstance(place, dict) else None
        if not isinstance(place, dict):
            raise UsageError(f"{OVERRIDE} {key}: `{'.'.join(parents)}` has no keys below it.")
        try:
            place[last] = read_yaml(value)
        except (yaml.YAMLError, ValueError) as error:
            raise UsageError(f"{OVERRIDE} {key}: not YAML: {getattr(error, 'problem', None) or error}.") from error
        self.places[key] = OVERRIDE

    def locate(self, key: str) -> str:
        """The place of a key, or of the nearest key above it."""
        while key:
            if key in self.places:
                return self.places[key]
            key = key.rpartition(".")[0]
        return self.path.name


def load_recipe_for(data: PreparedData, given: Path, overrides: Sequence[str]) -> Recipe:
    """A complete recipe for this data, from a file or by the name of a shipped recipe."""
    source, target = data.text.source.vocabulary, data.text.target.vocabulary
    return load_recipe(find_recipe(given), overrides, (len(source), len(target)), source == target)


def load_recipe(
    path: Traversable, overrides: Sequence[str], vocab_size: tuple[int, int], shared_vocabulary: bool
) -> Recipe:
    """A complete recipe for data with these vocabularies."""
    source = Source(path)
    for assignment in overrides:
        source.override(assignment)
    problems: list[Problem] = []
    content = source.content
    problems.extend(Problem(str(key), f"not an option.{nearest(str(key), KEYS)}") for key in content if key not in KEYS)
    data = {
        "name": content.get("name", Path(path.name).stem),
        "system": content.get("system"),
        "model": model_data(content, vocab_size, shared_vocabulary, problems),
        "train": content.get("train", {}) or {},
        "decode": content.get("decode", {}) or {},
    }
    recipe = None
    try:
        recipe = Recipe.model_validate(data)
    except ValidationError as error:
        broken = describe(error, Recipe, data)
        problems.extend(problem for problem in broken if data["model"] is not None or problem.key != "model")
    if recipe is not None:
        problems.extend(recipe.problems())
        if recipe.model.head.copies and not shared_vocabulary and vocab_size[0] == vocab_size[1]:
            copying = f"head `{recipe.model.head.type}` copies tokens, so both sides need one vocabulary"
            problems.append(Problem("model.head.type", f"{copying}. Prepare the data without --separate-vocab."))
    if problems or recipe is None:
        raise RecipeError("\n".join(f"{source.locate(problem.key)}  {problem}" for problem in problems))
    return recipe


def model_data(
    content: Mapping[str, Any], vocab_size: tuple[int, int], shared_vocabulary: bool, problems: list[Problem]
) -> Any:
    """A recipe's `model` with its size and system merged in; None if their names are unknown."""
    own = content.get("model", {}) or {}
    if not isinstance(own, dict):
        problems.append(Problem("model", f"must be a mapping, but is {own!r} instead."))
        return None
    own = dict(own)
    size, system = own.pop("size", "base"), content.get("system")
    for key, name, known in (("model.size", size, SIZES), ("system", system, SYSTEMS)):
        if name is not None and (not isinstance(name, str) or name not in known):
            choices = ", ".join(known)
            problems.append(
                Problem(key, f"must be one of {choices}, but is {name!r} instead.{nearest(str(name), known)}")
            )
    if any(problem.key in ("model.size", "system") for problem in problems):
        return None
    given = [key for key in ("source_vocab", "target_vocab") if own.pop(key, None) is not None]
    problems.extend(Problem(f"model.{key}", "not an option: it comes from the data.") for key in given)
    chosen = settings(system, size, own)
    if not shared_vocabulary:
        chosen.setdefault("share_embeddings", "decoder")
    return {**chosen, "source_vocab": vocab_size[0], "target_vocab": vocab_size[1]}


def dump_recipe(recipe: Recipe) -> str:
    """A resolved recipe as YAML."""
    return yaml.safe_dump(recipe.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


def read_resolved(path: Path) -> Recipe:
    """A recipe that `dump_recipe` wrote."""
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
        return Recipe.model_validate_json(json.dumps(data))
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from error
    except ValidationError as error:
        raise DataError(f"{path}: not a recipe of this version ({describe(error, Recipe, data)[0]}).") from error
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        raise DataError(f"{path}: damaged ({str(error).splitlines()[0]}).") from error
