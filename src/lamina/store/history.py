"""The records of a run's training."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lamina.errors import DataError

Points = list[tuple[float, float]]


@dataclass(frozen=True)
class Records:
    """The lines of a run's `metrics.jsonl`."""

    run: Path
    lines: list[dict[str, Any]]

    def curve(self, kind: str, key: str) -> Points:
        """The values of one metric over steps."""
        found = ((line["step"], line.get(key)) for line in self.lines if line["kind"] == kind)
        return [(step, value) for step, value in found if isinstance(value, int | float)]

    def gradients(self) -> list[tuple[int, list[float]]]:
        """The gradient norms of all encoder layers at each recorded step."""
        found = [(line["step"], line["encoder"]) for line in self.lines if line["kind"] == "gradients"]
        if not found:
            raise DataError(
                f"{self.run}: has no gradient records; train it with a `train.gradients_every` (100 by default) "
                "below the number of steps."
            )
        return found


def read_records(run: Path) -> Records:
    """Read the records of a run folder; those written after a resume replace earlier ones of the same step."""
    path = run / "metrics.jsonl"
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise DataError(f"{path}: not found; {run} is not a run of `lamina train`.") from error
    newest: dict[tuple[str, int], dict[str, Any]] = {}
    for line in text.splitlines():
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue  # a line that was being written when the run was killed
        if isinstance(record, dict) and isinstance(record.get("step"), int) and isinstance(record.get("kind"), str):
            newest[record["kind"], record["step"]] = record
    return Records(run, sorted(newest.values(), key=lambda record: record["step"]))
