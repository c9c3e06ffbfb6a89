"""Information about the served models: languages, system, task; and language detection."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from lamina.model.config import ModelConfig
from lamina.systems.published import SYSTEMS
from lamina.text.vocabulary import UNK
from lamina.translation.translator import Translator


def describe_model(name: str, translator: Translator) -> dict[str, Any]:
    """An entry of `/v1/models`."""
    model, text = translator.models[0], translator.text
    source, target = text.source.language, text.target.language
    return {
        "name": name,
        "source": source,
        "target": target,
        "system": system_of(model.config),
        "task": task_of(source, target),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "encoder_layers": model.config.encoder.layers,
        "decoder_layers": model.config.decoder.layers,
        "decode": translator.settings.model_dump(mode="json"),
    }


def system_of(config: ModelConfig) -> str:
    """The published system with these sockets, or the sockets themselves."""
    sockets = (config.encoder.type, config.bridge.type, config.head.type)
    decoder = {"attention": config.decoder.attention, "wiring": config.decoder.wiring}
    for exact in (True, False):  # with its norm, or at least with its sockets
        for name, system in SYSTEMS.items():
            wanted = {"attention": "self", "wiring": "residual", **system.decoder}
            same = all(wanted[key] == value for key, value in decoder.items())
            same = same and sockets == (system.encoder, system.bridge, system.head)
            if same and (not exact or system.norm == config.norm):
                return name
    return " × ".join(sockets)


def task_of(source: str, target: str) -> str:
    """Between two languages it is translation; within one it is correction; other names are fields of a document."""
    if source == target or {source, target} in ({"src", "ref0"}, {"noisy", "clean"}):
        return "correction"
    if is_language(source) and is_language(target):
        return "translation"
    return "summarization" if target in ("subject", "summary", "title", "highlights") else "translation"


def is_language(code: str) -> bool:
    """Whether this looks like `en`, `deu` or `pt-BR`."""
    base = code.replace("_", "-").split("-")[0]
    return 2 <= len(base) <= 3 and base.isalpha() and base.islower()


def detect_language(translators: Mapping[str, Translator], text: str) -> list[dict[str, Any]]:
    """How well each source language's subwords fit a text: the fewer it takes, the better; best first."""
    costs: dict[str, float] = {}
    for translator in translators.values():
        side = translator.text.source
        ids = side.encode([text])[0]
        cost = (len(ids) + 3 * ids.count(UNK)) / max(1, len(text.split()))
        costs[side.language] = min(cost, costs.get(side.language, math.inf))
    least = min(costs.values())  # subtracted, or exp underflows for text without spaces
    likely = {language: math.exp(-2 * (cost - least)) for language, cost in costs.items()}
    total = sum(likely.values())
    ranked = sorted(likely, key=lambda language: -likely[language])
    return [{"language": language, "confidence": round(100 * likely[language] / total, 1)} for language in ranked]
