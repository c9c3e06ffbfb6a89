"""Masking one encoder layer at a time (Liu et al. 2021, Figure 2)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from lamina.analysis.finding import Cell, Finding, Picture, label_runs
from lamina.base.progress import Progress, no_progress, tracked
from lamina.errors import UsageError
from lamina.figures.axes import Axis
from lamina.figures.charts import Bars, bar_chart
from lamina.model.bridges.transparent import TransparentBridge
from lamina.scoring.protocol import Array, Gold, measure
from lamina.scoring.sacre import Bleu
from lamina.scoring.significance import bootstrap_scores, confidence_interval
from lamina.store.loading import load_run
from lamina.store.model_folder import LoadedModel
from lamina.translation import Translator

READING = (
    "The weight of one encoder layer at a time is set to 0 at inference; the encoder itself is unchanged. With this "
    "probe, Liu et al. (2021) find that the embedding layer matters more to the decoder than the layers between it "
    "and the top. The lower a bar reaches, the more the decoder relies on that layer."
)


def analyze_masking(
    run: Path,
    sources: Sequence[str],
    references: Sequence[str],
    checkpoint: str | int = "best",
    progress: Progress = no_progress,
) -> Finding:
    """Measure BLEU and output length with each layer masked, relative to the full model."""
    loaded = load_run(run, checkpoint)
    bridge = loaded.model.bridge
    if not isinstance(bridge, TransparentBridge):
        raise UsageError(
            f"{run}: its bridge `{loaded.model.config.bridge.type}` has no layer weights to set to 0; "
            "train a system with bridge `transparent` or `fine_grained`."
        )
    first = 0 if bridge.embedding is not None else 1
    layers = [None, *range(first, loaded.model.config.encoder.layers + 1)]
    found = {layer: translate(loaded, bridge, layer, sources) for layer in tracked(layers, "masking layers", progress)}
    metric = Bleu(Gold([list(references)], language=loaded.text.target.language))
    statistics = {layer: measure(metric, outputs) for layer, outputs in found.items()}
    bleu = {layer: float(metric.scores(each.sum(axis=0)[None])[0]) for layer, each in statistics.items()}
    length = {layer: sum(len(output.split()) for output in outputs) for layer, outputs in found.items()}
    rows: list[tuple[Cell, ...]] = [("none", bleu[None], 0.0, length[None], 0.0)]
    for layer in layers[1:]:
        changes = change(bleu[layer], bleu[None]), change(length[layer], length[None])
        rows.append((layer_name(layer), bleu[layer], changes[0], length[layer], changes[1]))
    whole_S = bootstrap_scores(metric, statistics[None])
    intervals = [change_interval(bootstrap_scores(metric, statistics[layer]), whole_S) for layer in layers[1:]]
    name = label_runs([run])[0]
    worst = min(rows[1:], key=lambda row: float(row[2]))
    verdict = f"{name}: BLEU drops most without {layer_title(str(worst[0]))} ({float(worst[2]):+.0f}%)"
    pictures = [
        Picture(
            "bleu",
            bars(rows, 2, "change in BLEU (%)", verdict, intervals),
            "BLEU with one layer masked, relative to the unmasked model, with 95% intervals of the difference.",
        ),
        Picture(
            "length",
            bars(rows, 4, "change in length (%)", f"{name}: output length"),
            "Words in the output, relative to the unmasked model.",
        ),
    ]
    head = ("masked layer", "BLEU", "change (%)", "words", "change in words (%)")
    data = {"run": str(run), "sentences": len(sources), "layers": [dict(zip(head, row, strict=True)) for row in rows]}
    return Finding("masking", f"One encoder layer masked at a time: {name}", READING, pictures, head, rows, data)


def translate(loaded: LoadedModel, bridge: TransparentBridge, layer: int | None, sources: Sequence[str]) -> list[str]:
    """Translate with a layer masked."""
    masked: AbstractContextManager[None] = nullcontext() if layer is None else bridge.mask_layer(layer)
    with masked:  # the engine packs the current weights
        translator = Translator([loaded.model.eval()], loaded.text, loaded.decode)
        return [each.text for each in translator.stream(sources)]


def layer_name(layer: int | None) -> str:
    """Name of a layer; 0 is the embedding."""
    return "embedding" if layer == 0 else str(layer)


def layer_title(name: str) -> str:
    """Name of a layer within a sentence."""
    return f"layer {name}" if name.isdigit() else f"the {name}"


def change(value: float, whole: float) -> float:
    """Relative change in per cent; 0 if the full model's value is 0."""
    return 100 * (value - whole) / whole if whole else 0.0


def change_interval(masked_S: Array, whole_S: Array) -> tuple[float, float]:
    """Confidence interval of a relative change in per cent, from scores of the same resampled sentences."""
    whole = float(whole_S.mean())
    return confidence_interval(100 * (masked_S - whole_S) / whole) if whole else (0.0, 0.0)


def bars(
    rows: Sequence[tuple[Cell, ...]],
    column: int,
    label: str,
    title: str,
    intervals: Sequence[tuple[float, float]] = (),
) -> str:
    """Draw a bar per masked layer; the first row is the full model."""
    values = [float(row[column]) for row in rows[1:]]
    axis = Axis.over(label, values, zero=True)
    return bar_chart(
        [str(row[0]) for row in rows[1:]], [Bars("masked", values, intervals)], axis, "masked encoder layer", title
    )
