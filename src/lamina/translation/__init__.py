"""Text in, text out: a trained model with its text pipeline. Importing this package does not import torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lamina.translation.loading import load
    from lamina.translation.result import Translation
    from lamina.translation.translator import Translator

__all__ = ["Translation", "Translator", "load"]


def __getattr__(name: str) -> Any:
    if name == "load":
        from lamina.translation.loading import load

        return load
    if name in __all__:
        from lamina.translation import translator

        return getattr(translator, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
