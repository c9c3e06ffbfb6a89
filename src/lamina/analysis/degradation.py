"""Scores on training and validation pairs by encoder depth (Wei et al. 2020, Figure 2)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import torch

from lamina.analysis.finding import Finding, Picture, label_runs
from lamina.base.progress import Progress, no_progress, tracked
from lamina.base.wording import counted, listed
from lamina.corpus.prepared import PreparedData, Split
from lamina.errors import DataError
from lamina.figures.axes import Axis
from lamina.figures.charts import Bars, Series, bar_chart, line_chart
from lamina.scoring.sacre import corpus_bleu
from lamina.translation import Translator, load
from lamina.translation.loading import other_vocabulary

READING = (
    "BLEU and loss on training and validation pairs: lines by encoder depth, or bars if all runs have the same "
    "depth. Wei et al. (2020, Figure 2) report that deep plain encoders score lower than shallow ones even on training "
    "pairs, so overfitting is not the cause, and that MSC improves with depth on both."
)


def analyze_degradation(
    runs: Sequence[Path], data: Path, sentences: int = 500, seed: int = 1, progress: Progress = no_progress
) -> Finding:
    """Decode a fixed random sample of training pairs and the first validation pairs with every run."""
    prepared = PreparedData(data)
    samples = {
        name: sample(prepared.split(name), sentences, seed if name == "train" else None) for name in ("train", "valid")
    }
    rows = []
    for name, run in tracked(list(zip(label_runs(runs), runs, strict=True)), "scoring runs", progress):
        translator = load(run)
        if other_vocabulary(translator.text, prepared.text):
            raise DataError(f"{run}: its vocabulary differs from that of {data}; give the data it was trained on.")
        scores = {split: measure(translator, pairs) for split, pairs in samples.items()}
        config = translator.models[0].config
        kind = family(config.encoder.type, config.norm)
        rows += [(name, kind, config.encoder.layers, split, bleu, loss) for split, (bleu, loss) in scores.items()]
    pictures = [
        draw(rows, column, label, split)
        for column, label in ((4, "BLEU"), (5, "loss (nats per token)"))
        for split in samples
    ]
    head = ("run", "encoder", "layers", "pairs", "BLEU", "loss")
    content = {"sentences": sentences, "runs": [dict(zip(head, row, strict=True)) for row in rows]}
    return Finding("degradation", "Scores on training and validation pairs", READING, pictures, head, rows, content)


def family(encoder: str, norm: str) -> str:
    """Label of runs that differ only in depth."""
    return f"plain ({norm}-norm)" if encoder == "stack" else f"{encoder} ({norm}-norm)"


def sample(split: Split, count: int, seed: int | None) -> list[tuple[list[int], list[int]]]:
    """Take a random sample of pairs, or the first ones if there is no seed."""
    numbers = torch.arange(len(split))
    if seed is not None:
        numbers = torch.randperm(len(split), generator=torch.Generator().manual_seed(seed))
    return [(source.tolist(), target.tolist()) for source, target in (split[int(number)] for number in numbers[:count])]


def measure(translator: Translator, pairs: Sequence[tuple[list[int], list[int]]]) -> tuple[float, float]:
    """Compute BLEU of beam search and the loss per target token."""
    sources, targets = [source for source, _ in pairs], [target for _, target in pairs]
    decode, language = translator.text.target.decode, translator.text.target.language
    outputs = [decode(each.tokens) for each in translator.translate_ids(sources)]
    total = sum(each.log_prob for each in translator.rescore(sources, targets, lenpen=1.0, normalised=True))
    return corpus_bleu(outputs, [decode(target) for target in targets], language), -total / sum(map(len, targets))


def draw(rows: Sequence[tuple[str, str, int, str, float, float]], column: int, label: str, split: str) -> Picture:
    """Draw a line per family; both splits share the same axes."""
    pairs = "training" if split == "train" else "validation"
    name, caption = f"{label.split()[0].lower()}-{pairs}", f"{label} on {pairs} pairs"
    own = [row for row in rows if row[3] == split]
    if len({row[2] for row in rows}) == 1:  # a single depth: bars instead of lines
        bars = Bars(label, [float(row[column]) for row in own])
        axis = Axis.over(label, bars.values, zero=True)
        values = {row[0]: float(f"{row[column]:.4g}") for row in own if math.isfinite(float(row[column]))}
        best = (max if column == 4 else min)(values.values(), default=0.0)
        names = [name for name, value in values.items() if value == best]
        found = f"{names[0]} is best" if len(names) == 1 else f"{listed(names)} are equal" if names else "not finite"
        title = f"{label.split()[0]} on {pairs} pairs, {counted(own[0][2], 'encoder layer')}: {found}"
        return Picture(name, bar_chart([row[0] for row in own], [bars], axis, "run", title), f"{caption}.")
    series = [
        Series(kind, sorted((row[2], float(row[column])) for row in rows if (row[1], row[3]) == (kind, split)))
        for kind in sorted({row[1] for row in rows})
    ]
    x = Axis.at("encoder layers", [row[2] for row in rows])
    y = Axis.over(label, [float(row[column]) for row in rows])
    return Picture(
        name,
        line_chart(series, x, y, title=f"{label.split()[0]} on {pairs} pairs{verdict(series)}"),
        f"{caption}, by encoder depth.",
    )


def verdict(series: Sequence[Series]) -> str:
    """Describe the largest change from the shallowest to the deepest model of a family."""
    changes = [(each.points[-1][1] - each.points[0][1], each) for each in series if len(each.points) > 1]
    if not changes:
        return ""
    change, largest = max(changes, key=lambda pair: abs(pair[0]))
    depths = f"from {largest.points[0][0]:.0f} to {largest.points[-1][0]:.0f} layers"
    amount = f"{change:+.1f}" if abs(change) >= 1 else f"{change:+.2g}"
    return f": {largest.name} changes by {amount} {depths}"
