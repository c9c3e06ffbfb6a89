"""Words that messages are built from."""

from __future__ import annotations

import pytest

from lamina.base.wording import counted


@pytest.mark.parametrize(("number", "text"), [(0, "0 lines"), (1, "1 line"), (2, "2 lines"), (1025, "1,025 lines")])
def test_a_noun_agrees_with_its_number(number: int, text: str) -> None:
    assert counted(number, "line") == text
