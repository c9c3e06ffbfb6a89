"""Encoders: from embedded sources to the states of every layer. A new encoder is registered here."""

from lamina.model.encoders.dlcl import DlclSettings
from lamina.model.encoders.grown import GrownSettings
from lamina.model.encoders.hierarchical import HierarchicalSettings
from lamina.model.encoders.msc import MscSettings
from lamina.model.encoders.stack import StackSettings
from lamina.model.settings import EncoderSettings

ENCODERS: dict[str, type[EncoderSettings]] = {
    "stack": StackSettings,
    "dlcl": DlclSettings,
    "msc": MscSettings,
    "hierarchical": HierarchicalSettings,
    "grown": GrownSettings,
}
