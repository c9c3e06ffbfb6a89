"""`docs/extending.md` works as written in a copy of the package, and its bridge passes the contracts."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_page_works_as_written(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "extending.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    module, import_line, entry, use, text, identity, lowering, lowering_entry = blocks
    shutil.copytree(ROOT / "src", tmp_path / "src")
    bridges = tmp_path / "src" / "lamina" / "model" / "bridges"
    (bridges / "average.py").write_text(module)
    table = (bridges / "__init__.py").read_text()
    table = table.replace("\nfrom lamina", f"\n{import_line}from lamina", 1).replace("] = {\n", f"] = {{\n{entry}", 1)
    (bridges / "__init__.py").write_text(table)
    engine = tmp_path / "src" / "lamina" / "engine" / "lowering" / "bridges.py"
    imported = "from lamina.model.bridges.average import AverageBridge\n"
    before, table, after = engine.read_text().partition("BRIDGES: dict[type[nn.Module], type[BridgeLowering]] = {\n")
    before = before.replace("from lamina.model", f"{imported}from lamina.model", 1)
    engine.write_text(f"{before}{lowering}\n\n{table}{lowering_entry}{after}")
    (tmp_path / "test_page.py").write_text(f"{use}\n\n{identity}")
    own = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path / "src"), str(ROOT / "tests")])}
    (commands,) = re.findall(r"^lamina prepare.*?(?=^```)", page, flags=re.DOTALL | re.MULTILINE)
    assert "max_steps=100" in commands
    python = shlex.quote(sys.executable)
    commands = commands.replace("max_steps=100", "max_steps=2").replace("lamina ", f"{python} -m lamina ")
    train = f"{python} text.py && {commands}"
    (tmp_path / "text.py").write_text(text)
    trained = subprocess.run(
        train, shell=True, cwd=tmp_path, env=own, capture_output=True, text=True, timeout=300, check=False
    )
    assert trained.returncode == 0, trained.stderr
    assert "transformer: stack × average × softmax" in trained.stderr
    contracts = [ROOT / "tests" / "contracts" / f"test_{name}.py" for name in ("every_combination", "backends")]
    chosen = "page or average-surface-self-pre or average-softmax-mixed-post"
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-c", ROOT / "pyproject.toml", "-k", chosen, "-p", "no:cacheprovider",
         tmp_path / "test_page.py", *contracts],
        env=own, capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout
    (passed,) = re.findall(r"(\d+) passed", result.stdout)
    assert int(passed) > 100, result.stdout
    assert "skipped" not in result.stdout
