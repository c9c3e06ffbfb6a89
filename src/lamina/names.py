"""How messages name options, and suggestions for misspelled names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches

ELSEWHERE = {  # names in other libraries, and ours
    "batch_size": "batch_tokens",
    "bf16": "precision",
    "decoder_layers": "decoder.layers",
    "dim_feedforward": "ffn_size",
    "early_stopping": "patience",
    "encoder_layers": "encoder.layers",
    "epochs": "max_steps",
    "eval_steps": "validate_every",
    "fp16": "precision",
    "gpu": "cuda",
    "hidden_size": "d_model",
    "learning_rate": "lr",
    "length_penalty": "lenpen",
    "max_epochs": "max_steps",
    "max_new_tokens": "max_length",
    "nhead": "heads",
    "no_repeat_ngram_size": "no_repeat_ngram",
    "num_beams": "beam",
    "num_decoder_layers": "decoder.layers",
    "num_encoder_layers": "encoder.layers",
    "num_heads": "heads",
    "num_layers": "layers",
    "num_return_sequences": "nbest",
    "num_train_epochs": "max_steps",
    "save_steps": "save_every",
    "steps": "max_steps",
    "warmup_steps": "warmup",
}

_flags = False  # whether a command is running


@contextmanager
def naming_flags() -> Iterator[None]:
    """While a command runs, messages name options as flags."""
    global _flags
    before, _flags = _flags, True
    try:
        yield
    finally:
        _flags = before


def flag(name: str) -> str:
    """An option of a command: `--vocab-size`."""
    return f"--{name.replace('_', '-')}"


def option(name: str, value: str = "", python: str = "") -> str:
    """An option as the user types it: `--vocab-size` in a command, `vocab_size` (or `python`) in Python."""
    if _flags:
        return f"{flag(name)} {value}".rstrip()
    return python or (f"`{name}={value!r}`" if value else f"`{name}`")


def in_lamina(name: str) -> str:
    """Lamina's name for an option, which other libraries may call `name`."""
    return ELSEWHERE.get(name.casefold().replace("-", "_"), name)


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint with the closest known name, to append to a message; empty if none is close."""
    folded = {each.casefold(): each for each in known}
    ours = in_lamina(name)
    matches = [ours] if ours in folded else get_close_matches(name.casefold(), list(folded), n=1)
    return f" Did you mean `{folded[matches[0]]}`?" if matches else ""
