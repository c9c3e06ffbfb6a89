"""Each encoder layer hidden from the decoder in turn (Liu et al. 2021, Figure 2)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from lamina.analysis.finding import Cell, Finding, Picture
from lamina.errors import UsageError
from lamina.figures.axes import Axis
from lamina.figures.charts import bar_chart
from lamina.model.bridges.transparent import TransparentBridge
from lamina.scoring.sacre import corpus_bleu
from lamina.store.loading import load_run
from lamina.store.model_folder import LoadedModel
from lamina.translation import Translator

READING = (
    "One encoder layer's weight at a time is set to 0 at inference; the encoder itself is untouched. Liu et al. "
    "(2021) find by this that the embedding layer is more important to the decoder than the layers between it and "
    "the top. A tall bar downwards means that the decoder needs that layer."
)


def analyze_masking(run: Path, sources: Sequence[str], references: Sequence[str], checkpoint: str = "best") -> Finding:
    """BLEU and output length with each layer masked, relative to the whole model."""
    loaded = load_run(run, checkpoint)
    bridge = loaded.model.bridge
    if not isinstance(bridge, TransparentBridge):
        raise UsageError(
            f"{run}: its bridge `{loaded.model.config.bridge.type}` has no layer weights to set to 0; "
            "train a system with `transparent` or `fine_grained`."
        )
    first = 0 if bridge.embedding is not None else 1
    layers = [None, *range(first, loaded.model.config.encoder.layers + 1)]
    found = {layer: measure(loaded, bridge, layer, sources, references) for layer in layers}
    whole_bleu, whole_length = found[None]
    rows: list[tuple[Cell, ...]] = [("none", whole_bleu, 0.0, whole_length, 0.0)]
    for layer in layers[1:]:
        bleu, length = found[layer]
        rows.append((layer_name(layer), bleu, change(bleu, whole_bleu), length, change(length, whole_length)))
    names = [str(row[0]) for row in rows[1:]]
    pictures = [
        Picture(name, bars(names, [float(row[column]) for row in rows[1:]], label), caption)
        for name, column, label, caption in (
            ("bleu", 2, "change of BLEU (%)", "BLEU with one layer masked, relative to the whole model."),
            ("length", 4, "change of length (%)", "Words of the output, relative to the whole model."),
        )
    ]
    head = ("masked layer", "BLEU", "change (%)", "words", "change of words (%)")
    data = {"run": str(run), "sentences": len(sources), "layers": [dict(zip(head, row, strict=True)) for row in rows]}
    return Finding("masking", "One encoder layer masked at a time", READING, pictures, head, rows, data)


def measure(
    loaded: LoadedModel,
    bridge: TransparentBridge,
    layer: int | None,
    sources: Sequence[str],
    references: Sequence[str],
) -> tuple[float, int]:
    """BLEU and words of the output with a layer masked."""
    masked: AbstractContextManager[None] = nullcontext() if layer is None else bridge.mask_layer(layer)
    with masked:  # the engine packs weights as they are now
        translator = Translator([loaded.model.eval()], loaded.text, loaded.decode)
        outputs = [each.text for each in translator.stream(sources)]
    return corpus_bleu(outputs, references, loaded.text.target.language), sum(len(output.split()) for output in outputs)


def layer_name(layer: int | None) -> str:
    """0 is the embedding."""
    return "embedding" if layer == 0 else str(layer)


def change(value: float, whole: float) -> float:
    """In per cent of the whole model's; 0 if that is 0."""
    return 100 * (value - whole) / whole if whole else 0.0


def bars(names: Sequence[str], values: Sequence[float], label: str) -> str:
    """A bar for each masked layer."""
    return bar_chart(names, [("masked", values)], Axis.over(label, values, zero=True), "masked encoder layer")
