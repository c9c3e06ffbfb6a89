"""The API as seen by type checkers and imports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import get_type_hints

import pytest

import lamina
from lamina.recipe.decode import SearchSettings
from lamina.recipe.options import SearchOptions, TrainOptions
from lamina.recipe.schema import TrainSettings

SCRIPT = """
from pathlib import Path

import lamina


class Watch(lamina.Callback):
    def on_validation(self, event: lamina.ValidationEvent) -> None:
        print(event.step, event.perplexity)


data: lamina.PreparedData = lamina.prepare(("a.en", "a.de"), [("A dog.", "Ein Hund.")], Path("data"), vocab_size=4000)
run: lamina.Run = lamina.train("surface-fusion", data, "runs/x", callbacks=[Watch()], max_steps=10, lr=1e-3)
one: lamina.Translation = lamina.load(run).translate("A dog.", beam=3, attention=True)
many: list[lamina.Translation] = lamina.load(run).translate(["A dog."])
svg: str = one.plot_attention().svg
bleu: float = lamina.evaluate(run, ("test.en", "test.de"), lenpen=0.6)["bleu"].score
rows: list[float | None] = [row.p_bootstrap for row in lamina.compare([run, "runs/y"], ("test.en", "test.de"))]
finding: lamina.Finding = lamina.analyze.gradients([run, "runs/y"])
"""
MISTAKES = {
    'lamina.load("x").translate("a", beams=3)': "beams",
    'lamina.train("msc", "data", max_step=3)': "max_step",
    'lamina.prepare(("a", "b"), ("c", "d"), "out", subwords="wordpiece")': "subwords",
}


@pytest.mark.slow
def test_a_user_script_passes_mypy(tmp_path: Path) -> None:
    wrong = "".join(f"{line}\n" for line in MISTAKES)
    (tmp_path / "script.py").write_text(SCRIPT + wrong)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), "script.py"]
    root = str(Path(lamina.__file__).parents[1])
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env={"MYPYPATH": root, "PATH": ""})
    first = SCRIPT.count("\n") + 1
    found = [line for line in result.stdout.splitlines() if line.startswith("script.py:") and "error" in line]
    lines = {int(line.split(":")[1]) for line in found}
    assert lines == set(range(first, first + len(MISTAKES))), result.stdout


@pytest.mark.parametrize(("options", "settings"), [(SearchOptions, SearchSettings), (TrainOptions, TrainSettings)])
def test_keyword_arguments_match_the_schema(options: type, settings: type) -> None:
    assert list(get_type_hints(options)) == list(settings.model_fields)
    assert {name for name in settings.model_fields if f"`{name}`" not in (options.__doc__ or "")} == set()


def test_import_does_not_load_torch() -> None:
    script = "import sys, lamina; dir(lamina); assert not {'torch', 'numpy', 'pydantic', 'rich'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True)


def test_unknown_names() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'trian'"):
        _ = lamina.trian
