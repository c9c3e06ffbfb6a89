"""The README's Python is executed, and its system table is the one in the code."""

from __future__ import annotations

import re
from pathlib import Path

from lamina.systems import SYSTEMS

README = Path(__file__).parents[2] / "README.md"


def test_python_runs() -> None:
    (block,) = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    names: dict[str, object] = {}
    exec(compile(block, str(README), "exec"), names)
    assert names["model"].log_probs(names["source"], names["prefix"]).shape == (1, 3, 1000)


def test_the_table_is_the_code() -> None:
    part = README.read_text().partition("## Systems")[2].partition("\n## ")[0]
    rows = [line for line in part.splitlines() if line.startswith("| `")]
    listed = {name: row for row in rows for name in re.findall(r"`([\w-]+)`", row.split("|")[1])}
    assert listed.keys() == SYSTEMS.keys()
    for name, system in SYSTEMS.items():
        cells = [cell.strip(" `") for cell in listed[name].split("|")[2:5]]
        assert cells == [system.encoder, system.bridge, system.head]
