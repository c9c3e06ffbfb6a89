"""Metrics by name. To add one, implement `Metric` and register the class here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from lamina.errors import UsageError
from lamina.names import nearest

if TYPE_CHECKING:
    from lamina.scoring.protocol import Gold, Metric

METRICS = {  # module and class, imported on use: the command line lists the names without loading numpy and sacreBLEU
    "bleu": "sacre.Bleu",
    "chrf": "sacre.Chrf",
    "ter": "sacre.Ter",
    "multi-bleu": "multi_bleu.MultiBleu",
    "rouge": "rouge.Rouge",
    "rouge-1": "rouge.RougeOne",
    "rouge-2": "rouge.RougeTwo",
    "rouge-l": "rouge.RougeLongest",
    "gleu": "gleu.Gleu",
    "m2": "m2.MaxMatch",
}
DEFAULT_METRICS = ("bleu", "chrf")


def check_names(names: Sequence[str]) -> list[str]:
    """Validate metric names, separated by commas or given as separate strings, and remove duplicates."""
    if not all(isinstance(name, str) for name in names):
        raise UsageError(f"Metrics must be names: {', '.join(METRICS)}.")
    split = [name.strip() for each in names for name in each.split(",") if name.strip()]
    chosen = list(dict.fromkeys(split)) or list(DEFAULT_METRICS)
    for name in chosen:
        if name not in METRICS:
            raise UsageError(f"Unknown metric `{name}`.{nearest(name, METRICS)} Metrics: {', '.join(METRICS)}.")
    if "m2" in chosen and len(chosen) > 1:
        raise UsageError("m2 reads an .m2 file as its reference, so it cannot be combined with other metrics.")
    return chosen


def names_to_compare(names: Sequence[str]) -> list[str]:
    """Expand `rouge` to its three measures, which are compared separately."""
    parts = {"rouge": ("rouge-1", "rouge-2", "rouge-l")}
    return list(dict.fromkeys(part for name in check_names(names) for part in parts.get(name, (name,))))


def build_metrics(names: Sequence[str], gold: Gold) -> list[Metric]:
    """Build metrics by name for scoring against `gold`."""
    return [find_metric(name)(gold) for name in check_names(names)]


def find_metric(name: str) -> Callable[[Gold], Metric]:
    """Import the class of a metric."""
    module, _, metric = METRICS[name].partition(".")
    return getattr(import_module(f"lamina.scoring.{module}"), metric)
