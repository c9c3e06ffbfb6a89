"""YAML files written by hand: nothing is executed, and obvious mistakes are errors."""

from __future__ import annotations

import re
from typing import Any

import yaml

LARGEST = 2**20  # maximum characters of a file
MOST_VALUES = 100_000  # maximum values after aliases are expanded


class YamlLoader(yaml.SafeLoader):
    """A safe loader that reads 1e-4 as a number; YAML 1.1 reads it as text and requires 1.0e-4."""

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        """Reject duplicate keys; the standard loader keeps the last."""
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"duplicate key `{key.value}`", key.start_mark)
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)


YamlLoader.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(r"[-+]?\d+[eE][-+]?\d+$"), list("-+0123456789"))


def compose_yaml(text: str) -> Any:
    """Parse a document into nodes with line numbers; its size is bounded, with aliases expanded."""
    if len(text) > LARGEST:
        raise yaml.YAMLError(f"larger than {LARGEST:,} characters")
    try:
        node = yaml.compose(text, Loader=YamlLoader)
        if node is not None and count_values(node, {}) > MOST_VALUES:
            raise yaml.YAMLError(f"its aliases expand to more than {MOST_VALUES:,} values")
    except RecursionError as error:
        raise yaml.YAMLError("nested too deeply") from error
    return node


def count_values(node: Any, counts: dict[int, int]) -> int:
    """Count a node's values with every alias expanded; a recursive alias is an error."""
    known = counts.get(id(node))
    if known is None:
        counts[id(node)] = -1
        children = [each for pair in node.value for each in pair] if isinstance(node, yaml.MappingNode) else node.value
        below = children if isinstance(node, yaml.CollectionNode) else []
        known = counts[id(node)] = 1 + sum(count_values(child, counts) for child in below)
    if known < 0:
        raise yaml.YAMLError("an alias refers to a value that contains it")
    return known


def explain_yaml_error(path: object, error: Exception) -> str:
    """A message on one line: where the file is not YAML, and why."""
    if isinstance(error, UnicodeDecodeError):
        return f"{path}: not YAML: not UTF-8 at byte {error.start}."
    mark = getattr(error, "problem_mark", None)
    location = f"{path}:{mark.line + 1}" if mark is not None else str(path)
    return f"{location}: not YAML: {getattr(error, 'problem', None) or error}."


def read_yaml(text: str) -> Any:
    """Load a document, within the limits of `compose_yaml`."""
    compose_yaml(text)
    return yaml.load(text, Loader=YamlLoader)
