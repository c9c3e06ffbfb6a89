"""Convert the executed notebooks of `examples/` to pages of the site."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parents[1] / "examples"


def pages() -> dict[str, str]:
    """Markdown of each notebook, by name."""
    return {path.stem: as_markdown(path) for path in sorted(EXAMPLES.glob("*.ipynb"))}


def as_markdown(path: Path) -> str:
    """Convert a notebook's cells and recorded outputs."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    parts = []
    for cell in cells:
        source = "".join(cell["source"])
        parts.append(f"```python\n{source}\n```" if cell["cell_type"] == "code" else source)
        parts += [shown for output in cell.get("outputs", []) if (shown := render_output(output))]
    note = f"*This page is the notebook `examples/{path.name}`, with the outputs of its last run.*"
    return "\n\n".join([parts[0], note, *parts[1:]]) + "\n"


def render_output(output: dict[str, Any]) -> str:
    """Render the richest representation of an output."""
    data = output.get("data", {"text/plain": output.get("text", "")})
    for kind in ("image/svg+xml", "text/html"):
        if kind in data:
            return '<div class="output">' + re.sub(r"\n\s*", " ", "".join(data[kind])) + "</div>"
    words = "".join(data.get("text/plain", "")).rstrip()
    return f"```text\n{words}\n```" if words else ""
