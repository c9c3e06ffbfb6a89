"""The published systems: their papers, socket choices and sizes.

Does not import torch. `settings` merges a size, a system and a user's choices into the options of
`lamina.model.config.ModelConfig`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lamina.errors import UsageError
from lamina.names import nearest

Choices = Mapping[str, Any]

SIZES: dict[str, dict[str, Any]] = {
    "tiny": {"d_model": 128, "ffn_size": 256, "heads": 4, "encoder": {"layers": 4}, "decoder": {"layers": 4}},
    "small": {
        "d_model": 256,
        "ffn_size": 512,
        "heads": 4,
        "encoder": {"layers": 6},
        "decoder": {"layers": 6},
    },
    "iwslt": {
        "d_model": 512,
        "ffn_size": 1024,
        "heads": 4,
        "encoder": {"layers": 6},
        "decoder": {"layers": 6},
    },
    "base": {
        "d_model": 512,
        "ffn_size": 2048,
        "heads": 8,
        "encoder": {"layers": 6},
        "decoder": {"layers": 6},
    },
    "big": {
        "d_model": 1024,
        "ffn_size": 4096,
        "heads": 16,
        "encoder": {"layers": 6},
        "decoder": {"layers": 6},
    },
}


@dataclass(frozen=True)
class Configuration:
    """A system at the size of a published result."""

    size: str
    vocab_size: int
    encoder_layers: int
    published_parameters: str | None = None  # as reported in the paper


@dataclass(frozen=True)
class System:
    """A published system: a choice for each socket."""

    paper: str
    norm: str
    encoder: str = "stack"
    bridge: str = "top"
    head: str = "softmax"
    decoder: Choices = field(default_factory=dict)
    init: str = "xavier"
    configurations: Mapping[str, Configuration] = field(default_factory=dict)

    def choices(self) -> dict[str, Any]:
        """The model options that the system determines."""
        return {
            "norm": self.norm,
            "init": self.init,
            "encoder": {"type": self.encoder},
            "bridge": {"type": self.bridge},
            "head": {"type": self.head},
            "decoder": dict(self.decoder),
        }


MSC_PAPER = "Wei et al. 2020, Multiscale Collaborative Deep Models for Neural Machine Translation"
FUSION_PAPER = "Liu et al. 2021, Understanding and Improving Encoder Layer Fusion in Sequence-to-Sequence Learning"
IWSLT_VOCABULARY = 10_124  # the joint 10k BPE vocabulary behind the MSC paper's IWSLT14 parameter counts

SYSTEMS: dict[str, System] = {
    "transformer": System(
        paper="Vaswani et al. 2017, Attention Is All You Need; pre-norm as in Wang et al. 2019",
        norm="pre",
        configurations={"transformer-small": Configuration("small", IWSLT_VOCABULARY, 6, "10.5M")},
    ),
    "transformer-post": System(
        paper="Vaswani et al. 2017, Attention Is All You Need",
        norm="post",
        configurations={"transformer-post-tiny": Configuration("tiny", 9_720, 4, "2.57M")},
    ),
    "transparent": System(
        paper="Bapna et al. 2018, Training Deeper Neural Machine Translation Models with Transparent Attention",
        norm="pre",
        bridge="transparent",
        configurations={
            "transparent-36": Configuration("small", IWSLT_VOCABULARY, 36),
            "transparent-72": Configuration("small", IWSLT_VOCABULARY, 72),
        },
    ),
    "fine-grained": System(paper=FUSION_PAPER, norm="post", bridge="fine_grained"),
    "layerwise": System(paper=FUSION_PAPER, norm="post", bridge="layerwise"),
    "aggregation": System(
        paper="Dou et al. 2018, Exploiting Deep Representations for Neural Machine Translation",
        norm="post",
        bridge="aggregation",
    ),
    "coordination": System(
        paper="He et al. 2018, Layer-Wise Coordination between Encoder and Decoder for Neural Machine Translation",
        norm="post",
        bridge="layerwise",
        decoder={"attention": "mixed", "tie_encoder": True},
    ),
    "dlcl": System(
        paper="Wang et al. 2019, Learning Deep Transformer Models for Machine Translation",
        norm="pre",
        encoder="dlcl",
        decoder={"wiring": "dlcl"},
        configurations={
            "dlcl-36": Configuration("small", IWSLT_VOCABULARY, 36),
            "dlcl-72": Configuration("small", IWSLT_VOCABULARY, 72),
        },
    ),
    "block-scale": System(
        paper=f"{MSC_PAPER}; its ablation without contextual collaboration",
        norm="pre",
        bridge="blocks",
        configurations={"block-scale-72": Configuration("small", IWSLT_VOCABULARY, 72)},
    ),
    "msc": System(
        paper=MSC_PAPER,
        norm="pre",
        encoder="msc",
        bridge="collaborative",
        configurations={
            "msc-6": Configuration("small", IWSLT_VOCABULARY, 6, "15.6M"),
            "msc-36": Configuration("small", IWSLT_VOCABULARY, 36, "43.3M"),
            "msc-54": Configuration("small", IWSLT_VOCABULARY, 54, "60.0M"),
            "msc-72": Configuration("small", IWSLT_VOCABULARY, 72, "76.6M"),
            "msc-wide-18": Configuration("iwslt", IWSLT_VOCABULARY, 18),
            "msc-wide-36": Configuration("iwslt", IWSLT_VOCABULARY, 36),
        },
    ),
    "surface-fusion": System(paper=FUSION_PAPER, norm="post", head="surface"),
    "average-attention": System(
        paper="Zhang et al. 2018, Accelerating Neural Transformer via an Average Attention Network",
        norm="post",
        decoder={"attention": "average"},
    ),
    "merged-attention": System(
        paper="Zhang et al. 2019, Improving Deep Transformer with Depth-Scaled Initialization and Merged Attention",
        norm="post",
        decoder={"attention": "merged"},
        init="ds",
    ),
    "msc-surface": System(
        paper="Lamina's own: MSC's encoder and bridge with SurfaceFusion's head",
        norm="pre",
        encoder="msc",
        bridge="collaborative",
        head="surface",
    ),
    "pointer-generator": System(
        paper="See et al. 2017, Get To The Point: Summarization with Pointer-Generator Networks",
        norm="pre",
        head="pointer",
    ),
    "hierarchical": System(
        paper=f"{MSC_PAPER}, Appendix A: its hierarchical baseline on CNN/DailyMail",
        norm="pre",
        encoder="hierarchical",
    ),
    "depth-growing": System(
        paper="Wu et al. 2019, Depth Growing for Neural Machine Translation",
        norm="post",
        encoder="grown",
        bridge="grown",
    ),
}


def find_system(name: str) -> System:
    """Look up a system by name."""
    configured = find_configuration(name)
    if configured is not None:
        system, at = configured
        raise UsageError(
            f'`{name}` is a configuration of a system: use lamina.build("{system}", size="{at.size}", '
            f'vocab_size={at.vocab_size}, encoder={{"layers": {at.encoder_layers}}}).'
        )
    if name not in SYSTEMS:
        raise UsageError(f"Unknown system `{name}`.{nearest(name, SYSTEMS)} `lamina systems` lists all systems.")
    return SYSTEMS[name]


def find_configuration(name: str) -> tuple[str, Configuration] | None:
    """Look up a configuration by name; returns the name of its system as well."""
    for system, entry in SYSTEMS.items():
        if name in entry.configurations:
            return system, entry.configurations[name]
    return None


def settings(system: str | None, size: str, own: Choices) -> dict[str, Any]:
    """Merge the choices of a size, a system and a user, each overriding the previous ones."""
    if size not in SIZES:
        raise UsageError(f"Unknown size `{size}`.{nearest(size, SIZES)} Sizes: {', '.join(SIZES)}.")
    plain = {"encoder": {"type": "stack"}, "bridge": {"type": "top"}, "head": {"type": "softmax"}}
    published = find_system(system).choices() if system is not None else {}
    return override(override(override(SIZES[size], plain), published), own)


def override(base: Choices, own: Choices) -> dict[str, Any]:
    """Merge choices one level deep; a socket whose type changes keeps only its number of layers."""
    merged = dict(base)
    for key, value in own.items():
        before = merged.get(key)
        if isinstance(before, Mapping) and isinstance(value, Mapping):
            if value.get("type", before.get("type")) != before.get("type"):
                before = {name: before[name] for name in ("layers",) if name in before}
            merged[key] = {**before, **value}
        else:
            merged[key] = value
    return merged
