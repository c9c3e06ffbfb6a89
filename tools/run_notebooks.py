"""Execute the notebooks of `examples/` and store their outputs, without Jupyter: `python tools/run_notebooks.py`.

Cells share a namespace and run in a temporary folder. As in Jupyter, the value of the last expression is displayed,
with `_repr_html_` or `_repr_svg_` if defined.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parents[1] / "examples"
RICH = {"_repr_svg_": "image/svg+xml", "_repr_html_": "text/html"}


def main() -> None:
    """Run the notebooks named on the command line, or all."""
    for path in [Path(name).resolve() for name in sys.argv[1:]] or sorted(EXAMPLES.glob("*.ipynb")):
        notebook = json.loads(path.read_text(encoding="utf-8"))
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            execute(notebook)
        path.write_text(json.dumps(notebook, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")
        print(os.path.relpath(path))


def execute(notebook: dict[str, Any]) -> None:
    """Run all code cells in order and store their outputs."""
    names: dict[str, Any] = {"__name__": "__main__"}
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, cell in enumerate(cells, 1):
        cell["execution_count"] = number
        cell["outputs"] = run_cell("".join(cell["source"]), names, number)


def run_cell(source: str, names: dict[str, Any], number: int) -> list[dict[str, Any]]:
    """Run one cell and return its outputs."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    value = None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, f"cell {number}", "exec", dont_inherit=True), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval", dont_inherit=True), names)
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append(
            {"output_type": "stream", "name": "stdout", "text": printed.getvalue().splitlines(keepends=True)}
        )
    if value is not None:
        data = {kind: getattr(value, method)() for method, kind in RICH.items() if hasattr(value, method)}
        data["text/plain"] = repr(value)
        outputs.append({"output_type": "execute_result", "execution_count": number, "metadata": {}, "data": data})
    return outputs


if __name__ == "__main__":
    main()
