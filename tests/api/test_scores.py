"""`lamina.compare` and the cached scores of a study."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import lamina
from lamina.scoring import evaluation
from lamina.scoring.protocol import Gold
from lamina.study import results


def test_compare_loads_every_run_with_the_same_options(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[tuple[str, dict[str, Any]]] = []

    def load(run: str, **options: Any) -> lamina.Translator:
        opened.append((Path(run).name, options))
        return lamina.load(run, threads=1)

    monkeypatch.setattr(evaluation, "load", load)
    runs, test = [workplace / "runs" / "first", workplace / "runs" / "second"], [("A dog runs.", "Ein Hund rennt.")]
    lamina.compare(runs, test, checkpoint="last", int8=True, shortlist="list", samples=2, progress=False)
    options = {"checkpoint": "last", "int8": True, "shortlist": "list"}
    assert opened == [("first", options), ("second", options)]


def test_an_unknown_option_gets_a_suggestion(workplace: Path) -> None:
    with pytest.raises(lamina.errors.UsageError, match="Did you mean `beam`"):
        lamina.evaluate(workplace / "runs" / "first", [("A dog.", "Ein Hund.")], beem=2, progress=False)  # type: ignore[call-arg]


def test_a_study_averages_again_only_if_checkpoints_change(workplace: Path, tmp_path: Path) -> None:
    run = shutil.copytree(workplace / "runs" / "first", tmp_path / "run")
    tests = {"": results.TestSet(["A dog runs."], Gold([["Ein Hund rennt."]]))}

    def written(last: int) -> int:
        result = results.evaluate(run, "fused", 1, tests, ["chrf"], last)
        assert result.parameters == sum(each.numel() for each in lamina.load(run).models[0].parameters())
        return (run / "averaged" / "model.safetensors").stat().st_mtime_ns

    first = written(2)
    assert written(2) == first
    assert written(3) > first
