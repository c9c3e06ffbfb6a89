"""`docs/extending.md` is executed as written, and its bridge is held to the contracts."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import test_every_combination as contracts

from lamina.model.bridges import BRIDGES
from support import Combination, build_combination

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"


def test_the_page_works_as_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    assert len(blocks) == 4
    monkeypatch.setitem(BRIDGES, "average", None)  # so that it is gone again afterwards
    module = ModuleType("lamina.model.bridges.average")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    names: dict[str, Any] = module.__dict__
    names["BRIDGES"] = BRIDGES
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    for encoder in ("stack", "dlcl", "msc"):
        combination = Combination(encoder, "average", "surface", "mixed", "pre")
        contracts.test_shape_and_mass(combination)
        contracts.test_padding_on_either_side_changes_nothing(combination)
        contracts.test_batch_of_one_equals_batch_of_many(combination)
        contracts.test_causality(combination)
        contracts.test_step_by_step_equals_full_forward(combination)
        contracts.test_every_parameter_gets_a_gradient(combination)
        contracts.test_loss_is_that_of_the_log_probabilities(combination)
        contracts.test_save_and_load(combination, tmp_path)
    build_combination.cache_clear()
