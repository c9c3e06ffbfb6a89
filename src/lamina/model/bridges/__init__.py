"""Bridges: what each decoder layer attends to. A new bridge is registered here."""

from lamina.model.bridges.aggregation import AggregationSettings
from lamina.model.bridges.blocks import BlocksSettings
from lamina.model.bridges.collaborative import CollaborativeSettings
from lamina.model.bridges.fine_grained import FineGrainedSettings
from lamina.model.bridges.grown import GrownBridgeSettings
from lamina.model.bridges.layerwise import LayerwiseSettings
from lamina.model.bridges.top import TopSettings
from lamina.model.bridges.transparent import TransparentSettings
from lamina.model.settings import BridgeSettings

BRIDGES: dict[str, type[BridgeSettings]] = {
    "top": TopSettings,
    "layerwise": LayerwiseSettings,
    "transparent": TransparentSettings,
    "fine_grained": FineGrainedSettings,
    "aggregation": AggregationSettings,
    "blocks": BlocksSettings,
    "collaborative": CollaborativeSettings,
    "grown": GrownBridgeSettings,
}
