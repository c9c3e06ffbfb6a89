"""Text in, text out: a trained model with its text pipeline."""

from lamina.translation.loading import load
from lamina.translation.translator import Translation, Translator

__all__ = ["Translation", "Translator", "load"]
