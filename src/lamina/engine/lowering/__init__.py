"""A model's modules become a program: one file for each part of a model, in the order of `lamina.model`.

Modules are known by their exact type. A subclass may compute anything, so it is refused (`UnsupportedModule`), and the
model is decoded by torch instead.
"""

from lamina.engine.lowering.models import lower
from lamina.engine.lowering.parts import UnsupportedModule

__all__ = ["UnsupportedModule", "lower"]
