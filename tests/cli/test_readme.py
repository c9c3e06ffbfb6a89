"""The README's Python is executed, and the table of systems is the one in the code."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from lamina.demo.grammar import write_demo
from lamina.systems.published import SIZES, SYSTEMS
from support import run_lamina

README = Path(__file__).parents[2] / "README.md"
SYSTEMS_PAGE = README.parent / "docs" / "systems.md"


def test_python_runs() -> None:
    (block,) = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    names: dict[str, object] = {}
    exec(compile(block, str(README), "exec"), names)
    assert names["model"].log_probs(names["source"], names["prefix"]).shape == (1, 3, 1000)


def test_the_table_of_systems_matches_the_code() -> None:
    part = SYSTEMS_PAGE.read_text().partition("| system |")[2].partition("\n\n")[0]
    rows = [line for line in part.splitlines() if line.startswith("| `")]
    listed = {name: row for row in rows for name in re.findall(r"`([\w-]+)`", row.split("|")[1])}
    assert listed.keys() == SYSTEMS.keys()
    for name, system in SYSTEMS.items():
        cells = [cell.strip(" `") for cell in listed[name].split("|")[2:5]]
        assert cells == [system.encoder, system.bridge, system.head]


def test_the_table_of_sizes_matches_the_code() -> None:
    part = SYSTEMS_PAGE.read_text().partition("| size |")[2].partition("\n\n")[0]
    rows = [re.findall(r"[\w]+", line) for line in part.splitlines() if line.startswith("| `")]
    expected = [
        [name, *(str(size[key]) for key in ("d_model", "ffn_size", "heads"))]
        + [str(size[side]["layers"]) for side in ("encoder", "decoder")]
        for name, size in SIZES.items()
    ]
    assert rows == expected


SMALLER = "--set train.max_steps=6 --set model.d_model=16 --set model.ffn_size=32 --set model.heads=2"


def test_four_commands_from_text_to_a_score(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = README.read_text().partition("## Your own text")[2]
    commands = text.split("```\n")[1].replace("lamina train surface-fusion", f"lamina train surface-fusion {SMALLER}")
    monkeypatch.chdir(tmp_path)
    write_demo(tmp_path, train=120, valid=8, test=8)
    for language in ("en", "de"):
        (tmp_path / f"valid.{language}").rename(tmp_path / f"dev.{language}")
    ran = [shlex.split(command)[1:] for command in commands.splitlines()]
    assert [words[0] for words in ran] == ["prepare", "train", "translate", "eval"]
    results = [run_lamina(*words) for words in ran]
    assert [result.returncode for result in results] == [0] * 4, results[-1].stderr
    assert len((tmp_path / "test.out").read_text().splitlines()) == 8
    assert re.match(r"bleu +\d", results[-1].stdout)
