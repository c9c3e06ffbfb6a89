"""Suggestions for misspelled names."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

ELSEWHERE = {  # names in other libraries, and ours
    "batch_size": "batch_tokens",
    "early_stopping": "patience",
    "epochs": "max_steps",
    "hidden_size": "d_model",
    "learning_rate": "lr",
    "length_penalty": "lenpen",
    "max_epochs": "max_steps",
    "no_repeat_ngram_size": "no_repeat_ngram",
    "num_beams": "beam",
    "num_return_sequences": "nbest",
    "steps": "max_steps",
    "warmup_steps": "warmup",
}


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint with the closest known name, to append to a message; empty if none is close."""
    folded = {each.casefold(): each for each in known}
    ours = ELSEWHERE.get(name.casefold().replace("-", "_"))
    matches = [ours] if ours in folded else get_close_matches(name.casefold(), list(folded), n=1)
    return f" Did you mean `{folded[matches[0]]}`?" if matches else ""
