"""`docs/extending.md` works as written in a copy of the package, and its bridge passes the contracts."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_page_works_as_written(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "extending.md").read_text()
    module, import_line, entry, use, identity = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    shutil.copytree(ROOT / "src", tmp_path / "src")
    bridges = tmp_path / "src" / "lamina" / "model" / "bridges"
    (bridges / "average.py").write_text(module)
    table = (bridges / "__init__.py").read_text()
    table = table.replace("\nfrom lamina", f"\n{import_line}from lamina", 1).replace("] = {\n", f"] = {{\n{entry}", 1)
    (bridges / "__init__.py").write_text(table)
    (tmp_path / "test_page.py").write_text(f"{use}\n\n{identity}")
    contracts = [ROOT / "tests" / "contracts" / f"test_{name}.py" for name in ("every_combination", "backends")]
    chosen = "page or average-surface-self-pre or average-softmax-mixed-post"
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-c", ROOT / "pyproject.toml", "-k", chosen, "-p", "no:cacheprovider",
         tmp_path / "test_page.py", *contracts],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path / "src"), str(ROOT / "tests")])},
        capture_output=True, text=True, timeout=170, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout
    (passed,) = re.findall(r"(\d+) passed", result.stdout)
    assert int(passed) > 80, result.stdout
