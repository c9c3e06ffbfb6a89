"""Metrics by name. To add one, implement `Metric` and register the class here."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lamina.errors import UsageError
from lamina.names import nearest
from lamina.scoring.gleu import Gleu
from lamina.scoring.m2 import MaxMatch
from lamina.scoring.multi_bleu import MultiBleu
from lamina.scoring.protocol import Gold, Metric
from lamina.scoring.rouge import Rouge, RougeLongest, RougeOne, RougeTwo
from lamina.scoring.sacre import Bleu, Chrf, Ter

METRICS: dict[str, Callable[[Gold], Metric]] = {
    "bleu": Bleu,
    "chrf": Chrf,
    "ter": Ter,
    "multi-bleu": MultiBleu,
    "rouge": Rouge,
    "rouge-1": RougeOne,
    "rouge-2": RougeTwo,
    "rouge-l": RougeLongest,
    "gleu": Gleu,
    "m2": MaxMatch,
}
DEFAULT_METRICS = ("bleu", "chrf")


def check_names(names: Sequence[str]) -> list[str]:
    """Validate metric names, separated by commas or given as separate strings, and remove duplicates."""
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
    return [METRICS[name](gold) for name in check_names(names)]
