"""Learned layer weights and gates (Liu et al. 2021, Figure 1)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from torch import Tensor, nn

from lamina.analysis.finding import Finding, Picture, label_runs
from lamina.base.wording import counted
from lamina.errors import UsageError
from lamina.figures.axes import Axis
from lamina.figures.charts import Bars, bar_chart
from lamina.figures.maps import Labels, heat_map
from lamina.model.bridges.transparent import TransparentBridge
from lamina.model.heads.surface import SurfaceHead
from lamina.model.layers.dlcl import DlclWiring
from lamina.model.layers.fusion import GatedFusion
from lamina.model.seq2seq import Seq2Seq
from lamina.store.loading import load_run
from lamina.translation import Translator

READING = (
    "The weights with which layers are mixed, and the values of gates. Liu et al. (2021, Figure 1): the top decoder "
    "layer gives the embedding layer the largest weight. In MSC, a gate near 1 selects the layer's own attention and "
    "a gate near 0 the attention to the context; SurfaceFusion's gate is the weight of the decoder's distribution."
)
Row = tuple[str, str, str, float]
Table = tuple[Picture, list[Row]]
Matrix = Sequence[Sequence[float]]


def analyze_layers(run: Path, pairs: Sequence[tuple[str, str]] = (), checkpoint: str | int = "best") -> Finding:
    """Collect all layer weights and gates of a model; gates depend on the input and are averaged over `pairs`."""
    loaded = load_run(run, checkpoint)
    model = loaded.model.eval()
    name = label_runs([run])[0]
    found = [*mixing(model, name), *wirings(model, name)]
    with record_gates(model) as recorded:
        has_gates = any(recorded.values())
    if has_gates:
        if not pairs:
            raise UsageError(f"{run}: its gates depend on the input; give a test set.")
        found += gates(model, Translator([model], loaded.text), pairs, name)
    if not found:
        config = model.config
        raise UsageError(
            f"{run}: `{config.encoder.type}` × `{config.bridge.type}` × `{config.head.type}` has no layer weights or "
            "gates; train `transparent`, `fine-grained`, `dlcl`, `msc`, or `surface-fusion` with a learned gate."
        )
    rows = [row for _, each in found for row in each]
    head = ("what", "reader", "layer", "weight")
    data = {"run": str(run), "weights": [dict(zip(head, row, strict=True)) for row in rows]}
    pictures = [picture for picture, _ in found]
    return Finding("layers", f"Layer weights and gates: {name}", READING, pictures, head, rows, data)


def mixing(model: Seq2Seq, name: str) -> Iterator[Table]:
    """`transparent` and `fine_grained`: weights of encoder layers per decoder layer, averaged over dimensions."""
    bridge = model.bridge
    if not isinstance(bridge, TransparentBridge):
        return
    weights_JL = bridge.weights().detach()
    weights_LJ = (weights_JL.mean(dim=2) if weights_JL.dim() == 3 else weights_JL).t().tolist()
    first = ["embedding"] if bridge.embedding is not None else []
    rows = [*first, *(str(layer) for layer in range(1, len(weights_LJ) + 1 - len(first)))]
    columns = [str(layer) for layer in range(1, len(weights_LJ[0]) + 1)]
    labels = Labels(rows, columns, "encoder layer", "decoder layer", "weight")
    flat = [weight for row in weights_LJ for weight in row]
    caption = f"What each decoder layer reads. Columns sum to 1; equal weights would be {1 / len(rows):.2f}."
    title = f"{name}: weights between {min(flat):.2f} and {max(flat):.2f}"
    drawing = heat_map(weights_LJ, labels, title=title)
    yield Picture("mixing", drawing, caption), _rows("mixing", weights_LJ, rows, columns)


def wirings(model: Seq2Seq, name: str) -> Iterator[Table]:
    """DLCL: weight of each lower layer in each layer's input."""
    for side in ("encoder", "decoder"):
        wiring = getattr(getattr(model, side), "wiring", None)
        if not isinstance(wiring, DlclWiring):
            continue
        read = [row.detach().tolist() for row in wiring.rows]
        size = len(read)
        below = [[row[k] if k < len(row) else float("nan") for row in read] for k in range(size)]
        rows = ["input", *(str(layer) for layer in range(1, size))]
        columns = [*(str(layer) for layer in range(1, size)), "out"]
        labels = Labels(rows, columns, "layer read", "reading layer", "weight")
        drawing = heat_map(below, labels, around_zero=True, title=f"{name}: what each {side} layer reads")
        yield (
            Picture(f"dlcl-{side}", drawing, f"The {side}'s learned combinations of layers."),
            _rows(f"dlcl {side}", below, rows, columns),
        )


def gates(model: Seq2Seq, translator: Translator, pairs: Sequence[tuple[str, str]], run: str) -> Iterator[Table]:
    """Gates of MSC and SurfaceFusion, averaged over positions and dimensions."""
    text = translator.text
    with record_gates(model) as seen:
        for source, target in pairs:  # one at a time: a batch would include gates of padding
            translator.rescore(text.source.encode([source]), text.target.encode([target]), lenpen=1.0)
    for side, values in seen.items():
        names = [str(number) for number in range(1, len(values) + 1)]
        means = [sum(total for total, _ in each) / sum(count for _, count in each) for each in values]
        if means:
            drawing = bar_chart(
                names,
                [Bars("gate", means)],
                Axis("mean gate", 0, 1),
                side if side == "head" else f"{side} layer",
                f"{run}: gates of the {side}",
            )
            rows = [(f"{side} gate", name, "", mean) for name, mean in zip(names, means, strict=True)]
            caption = f"Gates of the {side}, averaged over {counted(len(pairs), 'sentence')}."
            yield Picture(f"gates-{side}", drawing, caption), rows


Sums = list[tuple[float, int]]  # of one gate: (sum, count) per call


@contextmanager
def record_gates(model: Seq2Seq) -> Iterator[dict[str, list[Sums]]]:
    """Record every gate computed within the context."""
    seen: dict[str, list[Sums]] = {"encoder": [], "decoder": [], "head": []}
    with ExitStack() as stack:
        for side, part in (("encoder", model.encoder), ("decoder", model.decoder)):
            for fusion in part.modules():
                if isinstance(fusion, GatedFusion):
                    seen[side].append([])
                    hook = fusion.register_forward_hook(partial(_record_gate, seen[side][-1]))
                    stack.callback(hook.remove)
        head = model.head
        if isinstance(head, SurfaceHead) and head.constant_gate is None:
            seen["head"].append([])
            stack.callback(head.gate.register_forward_hook(partial(_record_output, seen["head"][-1])).remove)
        yield seen


def _record_gate(sums: Sums, fusion: GatedFusion, inputs: tuple[Tensor, ...], output: Tensor) -> None:
    _record_output(sums, fusion, inputs, fusion.gate(*inputs))


def _record_output(sums: Sums, module: nn.Module, inputs: tuple[Tensor, ...], gate: Tensor) -> None:
    sums.append((float(gate.sum()), gate.numel()))


def _rows(what: str, values: Matrix, rows: Sequence[str], columns: Sequence[str]) -> list[Row]:
    return [
        (what, column, row, value)
        for row, line in zip(rows, values, strict=True)
        for column, value in zip(columns, line, strict=True)
        if value == value
    ]
