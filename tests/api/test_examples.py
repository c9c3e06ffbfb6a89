"""Every public function and class of `lamina` has an example in its docstring, and it runs."""

from __future__ import annotations

import doctest
import inspect
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import lamina

FAIRSEQ = Path(__file__).parents[1] / "golden" / "fixtures" / "sf_readme_defaults"
EVENTS = {"StepEvent", "ValidationEvent", "SaveEvent", "StopTraining", "Figure", "Score", "Scores", "Comparison"}
MEMBERS = {"Translator.translate": lamina.Translator.translate}


def documented() -> Iterator[tuple[str, Any]]:
    """Public functions and classes; result types are covered by the examples of the functions."""
    for name in sorted(set(lamina.__all__) - EVENTS - {"__version__", "analyze"}):
        yield name, getattr(lamina, name)
    yield from ((f"analyze.{name}", getattr(lamina.analyze, name)) for name in lamina.analyze.__all__)
    yield from MEMBERS.items()


@pytest.mark.parametrize(("name", "thing"), list(documented()), ids=[name for name, _ in documented()])
def test_the_example_runs(name: str, thing: Any, workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(workplace)
    if name == "load_fairseq":
        shutil.copytree(FAIRSEQ, workplace, dirs_exist_ok=True)
    text = inspect.getdoc(thing) or ""
    assert "Example:" in text, f"lamina.{name} has no example"
    test = doctest.DocTestParser().get_doctest(text, {"lamina": lamina, "torch": torch}, name, None, 0)
    assert test.examples
    said: list[str] = []
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    doctest.DocTestRunner(optionflags=flags, verbose=False).run(test, out=said.append)
    assert said == [], "".join(said)


def test_all_lists_every_public_name() -> None:
    assert set(lamina.CLASSES) <= set(lamina.__all__)
    assert dir(lamina) == sorted(lamina.__all__)
    for name in lamina.__all__:
        assert getattr(lamina, name).__doc__ or name == "__version__"
