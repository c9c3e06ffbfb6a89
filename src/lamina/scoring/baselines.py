"""Trivial baselines that a trained model must beat."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lamina.errors import UsageError
from lamina.text.sentences import LINE_BREAK, split_sentences


def run_baseline(name: str, sources: Sequence[str]) -> list[str]:
    """Output of `copy`, the source itself, or of `lead-K`, its first K sentences."""
    if name == "copy":
        return [" ".join(source.replace(LINE_BREAK, " ").split()) for source in sources]
    lead = re.fullmatch(r"lead-([1-9]\d*)", name)
    if lead is None:
        raise UsageError(f"Unknown baseline `{name}`: use `copy` or `lead-K`, such as `lead-3`.")
    return [" ".join(split_sentences(source)[: int(lead[1])]) for source in sources]
