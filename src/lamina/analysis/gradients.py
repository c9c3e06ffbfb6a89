"""Gradient norms of the encoder layers during training (Wei et al. 2020, Figure 5)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median

from lamina.analysis.finding import Finding, Picture, file_name, label_runs
from lamina.base.wording import counted
from lamina.figures.axes import Axis
from lamina.figures.charts import Series, line_chart
from lamina.store.history import read_records

READING = (
    "The norm of the gradient of the loss with respect to the parameters of each encoder layer, recorded during "
    "training. Wei et al. (2020, Figure 5) show that MSC balances it between bottom and top layers of a deep encoder. "
    "Lines that stay close together mean that all layers are trained evenly; with few layers, they usually are in any "
    "system. Lines that are orders of magnitude apart mean that some layers receive very little gradient; if theirs "
    "keeps falling, they stop learning. Whether a model is good, only scores show. The table has the first, the median "
    "and the last recorded norm of each layer."
)
SUPERSCRIPT = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def analyze_gradients(runs: Sequence[Path]) -> Finding:
    """Plot the recorded gradient norms of each run on the same axes."""
    names = label_runs(runs)
    recorded = {name: read_records(run).gradients() for name, run in zip(names, runs, strict=True)}
    x = Axis.over("training step", [step for each in recorded.values() for step, _ in each], zero=True)
    y = Axis.over(
        "gradient norm", [norm for each in recorded.values() for _, norms in each for norm in norms if norm], log=True
    )
    rows = []
    pictures = []
    for name, each in recorded.items():
        numbered = enumerate(zip(*(norms for _, norms in each), strict=True), start=1)
        by_layer = {number: norms for number, norms in numbered if any(norms)}
        frozen = len(each[0][1]) - len(by_layer)
        steps = [step for step, _ in each]
        series = [Series(f"layer {number}", list(zip(steps, norms, strict=True))) for number, norms in by_layer.items()]
        title = f"{name}: {verdict([norms[-1] for norms in by_layer.values()])}"
        drawing = line_chart(series, x, y, "encoder layer", title)
        without = f"; frozen layers (not shown): {frozen}" if frozen else ""
        caption = f"{name}: {counted(len(series), 'encoder layer')}, recorded up to update {steps[-1]:,}{without}."
        pictures.append(Picture(file_name(name), drawing, caption))
        rows += [(name, number, norms[0], median(norms), norms[-1]) for number, norms in by_layer.items()]
    data = {name: [{"step": step, "norms": norms} for step, norms in each] for name, each in recorded.items()}
    head = ("run", "layer", "first", "median", "last")
    return Finding("gradients", "Gradient norm of every encoder layer", READING, pictures, head, rows, data)


def verdict(last: Sequence[float]) -> str:
    """Describe the spread of the final gradient norms."""
    ratio = max(last) / min(last) if min(last) > 0 else float("inf")
    times = "∞" if ratio == float("inf") else f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.1f}"
    if 1e4 <= ratio < float("inf"):
        digit, exponent = f"{ratio:.0e}".split("e+")
        times = f"{digit}·10{str(int(exponent)).translate(SUPERSCRIPT)}"
    return f"final gradients differ by up to {times}× between layers"
