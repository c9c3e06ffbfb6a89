"""Lamina: sequence-to-sequence models whose decoder can read every encoder layer, not just the last.

Importing this module does not import torch; its functions import it when they need it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lamina.api import analyze
from lamina.api.data import prepare
from lamina.api.models import average, build, export, load, load_fairseq, save
from lamina.api.scores import compare, evaluate, rescore, score
from lamina.api.training import train
from lamina.version import __version__

if TYPE_CHECKING:
    from lamina.analysis.finding import Finding, Picture
    from lamina.corpus.prepared import PreparedData
    from lamina.errors import LaminaError
    from lamina.figures.figure import Figure
    from lamina.recipe.options import SearchOptions, TrainOptions
    from lamina.scoring.compare import Comparison
    from lamina.scoring.evaluation import Scores
    from lamina.scoring.protocol import Score
    from lamina.search.sampling import SamplingSettings
    from lamina.store.run import Run
    from lamina.training.callbacks import Callback, SaveEvent, StepEvent, StopTraining, ValidationEvent
    from lamina.translation import Translation, Translator

CLASSES = {  # class to module, imported on first use
    "Callback": "lamina.training.callbacks",
    "Comparison": "lamina.scoring.compare",
    "Figure": "lamina.figures.figure",
    "Finding": "lamina.analysis.finding",
    "LaminaError": "lamina.errors",
    "Picture": "lamina.analysis.finding",
    "PreparedData": "lamina.corpus.prepared",
    "Run": "lamina.store.run",
    "SaveEvent": "lamina.training.callbacks",
    "SamplingSettings": "lamina.search.sampling",
    "Score": "lamina.scoring.protocol",
    "SearchOptions": "lamina.recipe.options",
    "Scores": "lamina.scoring.evaluation",
    "StepEvent": "lamina.training.callbacks",
    "StopTraining": "lamina.training.callbacks",
    "TrainOptions": "lamina.recipe.options",
    "Translation": "lamina.translation.result",
    "Translator": "lamina.translation.translator",
    "ValidationEvent": "lamina.training.callbacks",
}

__all__ = [
    "Callback",
    "Comparison",
    "Figure",
    "Finding",
    "LaminaError",
    "Picture",
    "PreparedData",
    "Run",
    "SamplingSettings",
    "SaveEvent",
    "Score",
    "Scores",
    "SearchOptions",
    "StepEvent",
    "StopTraining",
    "TrainOptions",
    "Translation",
    "Translator",
    "ValidationEvent",
    "__version__",
    "analyze",
    "average",
    "build",
    "compare",
    "evaluate",
    "export",
    "load",
    "load_fairseq",
    "prepare",
    "rescore",
    "save",
    "score",
    "train",
]


def __getattr__(name: str) -> Any:
    if name in CLASSES:
        return getattr(import_module(CLASSES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
