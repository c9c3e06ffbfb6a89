"""Load a recipe from a YAML file and overrides, or report every problem with file, line, key and nearest name."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from lamina.base.problems import describe_errors, unknown_key
from lamina.base.yaml_files import compose_yaml, explain_yaml_error, read_yaml
from lamina.corpus.prepared import PreparedData
from lamina.errors import DataError, Problem, UsageError
from lamina.model.config import ModelConfig
from lamina.names import nearest, option
from lamina.recipe.automatic import automatic_recipe, system_name
from lamina.recipe.schema import Recipe
from lamina.recipe.shipped import find_recipe
from lamina.systems.published import SIZES, SYSTEMS, settings

KEYS = ("name", "system", "model", "train", "decode")
OVERRIDE, ARGUMENT = "--set", "argument"  # places of values from the command line and from Python


class RecipeError(UsageError):
    """All problems of a recipe, one per line with its location."""


class Source:
    """A recipe's content, and the location of every key: a line of the file, or the command line."""

    def __init__(self, name: str, content: Mapping[str, Any], node: Any = None) -> None:
        self.name = name
        self.content: dict[str, Any] = copy.deepcopy(dict(content))
        self.locations: dict[str, str] = {}
        self._record(node, "")

    @classmethod
    def read(cls, path: Traversable) -> Source:
        """Read a YAML file."""
        try:
            text = path.read_text(encoding="utf-8")
            node = compose_yaml(text)
            content: Any = read_yaml(text)
        except FileNotFoundError as error:
            raise RecipeError(f"{path}: not found.") from error
        except OSError as error:
            raise RecipeError(f"{path}: cannot be read ({error.strerror}).") from error
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            raise RecipeError(explain_yaml_error(path, error)) from error
        if not isinstance(content, dict):
            raise RecipeError(f"{path}: must be a mapping with keys such as `system`, `model` and `train`.")
        return cls(path.name, content, node)

    def _record(self, node: Any, prefix: str) -> None:
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                path = f"{prefix}{key.value}"
                self.locations[path] = f"{self.name}:{key.start_mark.line + 1}:"
                self._record(value, f"{path}.")

    def apply(self, overrides: Sequence[str | tuple[str, Any]]) -> Source:
        """Apply overrides, each `key.path=value` in YAML, or a key and a value."""
        for each in overrides:
            if isinstance(each, str):
                self.override(each)
            else:
                self.set(*each, ARGUMENT)
        return self

    def override(self, assignment: str) -> None:
        """Apply one `key.path=value`; the value is YAML."""
        key, equals, value = assignment.partition("=")
        if not equals or not key:
            raise UsageError(f"{OVERRIDE} must be key.path=value, but is `{assignment}` instead.")
        try:
            self.set(key, read_yaml(value))
        except (yaml.YAMLError, ValueError) as error:
            raise UsageError(f"{OVERRIDE} {key}: not YAML: {getattr(error, 'problem', None) or error}.") from error

    def set(self, key: str, value: Any, place: str = OVERRIDE) -> None:
        """Set the value of a dotted key; `place` is for error messages."""
        *parents, last = key.split(".")
        node: Any = self.content
        for parent in parents:
            if isinstance(node, dict) and node.get(parent) is None:
                node[parent] = {}
            node = node[parent] if isinstance(node, dict) else None
        if not isinstance(node, dict):
            raise UsageError(f"{place} {key}: `{'.'.join(parents)}` has no keys below it.")
        node[last] = value
        self.locations[key] = place

    def locate(self, key: str) -> str:
        """The location of a key, or of its nearest ancestor, as the start of a message."""
        while key:
            if key in self.locations:
                return self.locations[key]
            key = key.rpartition(".")[0]
        return f"{self.name}:"


Given = str | os.PathLike[str] | Mapping[str, Any]  # a file, the name of a shipped recipe or a system, or the content


def load_recipe_for(data: PreparedData, given: Given, overrides: Sequence[str | tuple[str, Any]] = ()) -> Recipe:
    """Load a complete recipe for this data. An override is `key.path=value` in YAML, or a key and a value."""
    source, target = data.text.source.vocabulary, data.text.target.vocabulary
    return load_recipe(open_recipe(given, data, overrides), overrides, (len(source), len(target)), source == target)


def open_recipe(given: Given, data: PreparedData, overrides: Sequence[str | tuple[str, Any]]) -> Source | Traversable:
    """Resolve RECIPE; a system's automatic settings take the overridden number of steps into account."""
    if isinstance(given, Mapping):
        return Source("recipe", given)
    system = system_name(given)
    if system is None:
        return find_recipe(Path(given))
    processes = int(os.environ.get("WORLD_SIZE", "1"))  # set by torchrun
    train = Source(system, {}).apply(overrides).content.get("train")
    max_steps = train.get("max_steps") if isinstance(train, dict) else None
    return Source(system, automatic_recipe(system, data.meta, processes, max_steps))


def load_recipe(
    given: Source | Traversable,
    overrides: Sequence[str | tuple[str, Any]],
    vocab_size: tuple[int, int],
    shared_vocabulary: bool,
) -> Recipe:
    """Load a complete recipe for data with these vocabularies."""
    source = given if isinstance(given, Source) else Source.read(given)
    source.apply(overrides)
    problems: list[Problem] = []
    content = source.content
    data = {
        "name": content.get("name", Path(source.name).stem),
        "system": content.get("system"),
        "model": model_data(content, vocab_size, shared_vocabulary, problems),
        "train": content.get("train", {}) or {},
        "decode": content.get("decode", {}) or {},
    }
    unknown = [str(key) for key in content if key not in KEYS]
    problems.extend(Problem(key, unknown_key(key, KEYS, Recipe, data)) for key in unknown)
    recipe = None
    try:
        recipe = Recipe.model_validate(data)
    except ValidationError as error:
        found = describe_errors(error, Recipe, data)
        problems.extend(problem for problem in found if data["model"] is not None or problem.key != "model")
    if recipe is not None:
        problems.extend(recipe.problems())
        if not shared_vocabulary and vocab_size[0] == vocab_size[1]:  # other sizes are among the model's own problems
            problems.extend(separate_problems(recipe.model))
    if problems or recipe is None:
        raise RecipeError("\n".join(f"{source.locate(problem.key)} {problem}" for problem in problems))
    return recipe


def separate_problems(model: ModelConfig) -> Iterator[Problem]:
    """What needs a shared vocabulary but has two of the same size."""
    remedy = f"Prepare the data without {option('separate_vocab')}"
    if model.head.copies:
        copying = f"head `{model.head.type}` copies tokens, so both sides need one vocabulary"
        yield Problem("model.head.type", f"{copying}. {remedy}.")
    if model.share_embeddings == "all":
        yield Problem("model.share_embeddings", f"`all` needs one vocabulary. {remedy}, or use `decoder` or `none`.")


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
    unknown = []
    if not isinstance(size, str) or size not in SIZES:
        choices = f"must be one of {', '.join(SIZES)}, but is {size!r} instead."
        unknown.append(Problem("model.size", f"{choices}{nearest(str(size), SIZES)}"))
    if system is not None and (not isinstance(system, str) or system not in SYSTEMS):
        hint = nearest(str(system), SYSTEMS)
        unknown.append(Problem("system", f"`{system}` is not a system.{hint} `lamina systems` lists all systems."))
    if unknown:
        problems.extend(unknown)
        known = [*ModelConfig.keys(), "size", "source_vocab", "target_vocab"]
        mistakes = [str(key) for key in own if key not in known]
        problems.extend(Problem(f"model.{key}", f"not an option.{nearest(key, known)}") for key in mistakes)
        return None
    given = [key for key in ("source_vocab", "target_vocab") if own.pop(key, None) is not None]
    if len(given) == 1:  # a run's resolved recipe has both, and may be reused for other data
        problems.append(Problem(f"model.{given[0]}", "not an option: it comes from the data."))
    chosen = settings(system, size, own)
    if not shared_vocabulary:
        chosen.setdefault("share_embeddings", "decoder")
    return {**chosen, "source_vocab": vocab_size[0], "target_vocab": vocab_size[1]}


def dump_recipe(recipe: Recipe) -> str:
    """A resolved recipe as YAML."""
    return yaml.safe_dump(recipe.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


def read_resolved(path: Path) -> Recipe:
    """Read a recipe that `dump_recipe` wrote."""
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
        return Recipe.model_validate_json(json.dumps(data))
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from error
    except ValidationError as error:
        raise DataError(f"{path}: not a recipe of this version ({describe_errors(error, Recipe, data)[0]}).") from error
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        raise DataError(f"{path}: damaged ({str(error).splitlines()[0]}).") from error
