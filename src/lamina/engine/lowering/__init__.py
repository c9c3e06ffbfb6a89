"""Lowers a model's modules to a program, with one file for each part of a model.

Modules are matched by their exact type. A subclass may compute anything, so it is rejected (`UnsupportedModule`), and
the model is decoded by torch instead.
"""

from lamina.engine.lowering.models import lower
from lamina.engine.lowering.parts import UnsupportedModule

__all__ = ["UnsupportedModule", "lower"]
