"""Heads: from decoder states to a distribution. A new head is registered here."""

from lamina.model.heads.pointer import PointerSettings
from lamina.model.heads.softmax import SoftmaxSettings
from lamina.model.heads.surface import SurfaceSettings
from lamina.model.settings import HeadSettings

HEADS: dict[str, type[HeadSettings]] = {
    "softmax": SoftmaxSettings,
    "surface": SurfaceSettings,
    "pointer": PointerSettings,
}
