"""Cross-attention maps (Wei et al. 2020, Figure 4)."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from lamina.analysis.finding import Cell, Finding, Picture, label_runs
from lamina.base.wording import counted
from lamina.errors import UsageError
from lamina.figures.maps import Labels, heat_map
from lamina.model.heads.surface import SurfaceHead
from lamina.model.heads.surface_readers import AttentionReader
from lamina.model.seq2seq import Seq2Seq
from lamina.store.loading import load_run
from lamina.translation import Translator

READING = (
    "Each row shows how a target token distributes its attention over the source tokens; rows sum to 1. Wei et al. "
    "(2020, Figure 4) look at the top decoder layer: attention is scattered in a shallow model, while a deep one "
    "focuses on the words it is about to translate. MSC has one stream for the block's states and one for its "
    "context. SurfaceFusion has an additional reader, which attends to the source embedding."
)
STREAMS = ("states", "context")
LONGEST = 200  # subwords per side of a map


def analyze_attention(run: Path, source: str, target: str | None = None, checkpoint: str | int = "best") -> Finding:
    """Draw maps of every layer, averaged over heads, of the top layer's heads, and of the surface reader."""
    loaded = load_run(run, checkpoint)
    model = loaded.model.eval()
    translator = Translator([model], loaded.text, loaded.decode)
    ids = translator.encode([source])[0][0]
    if len(ids) <= 1:
        raise UsageError("The source is blank; give a sentence.")
    written = loaded.text.target.encode([target])[0] if target else translator.translate_ids([ids])[0].tokens
    if max(len(ids), len(written)) > LONGEST:
        raise UsageError(
            f"Attention maps are drawn for at most {LONGEST} subwords, but the source has {len(ids):,} and the target "
            f"{len(written):,}. Give a shorter sentence."
        )
    columns = [loaded.text.source.vocabulary.symbols[token] for token in ids]
    rows = [loaded.text.target.vocabulary.symbols[token] for token in written]
    source_1S, prefix_1T = torch.tensor([ids]), torch.tensor([[model.start_id, *written[:-1]]])
    labels = Labels(rows, columns, "target", "source", "attention")
    label = label_runs([run])[0]
    pictures: list[Picture] = []
    cells, data = [], []
    for name, caption, weights_TS in maps(model, source_1S, prefix_1T):
        values = weights_TS.tolist()
        place, largest = caption.rstrip(".").replace("Decoder", "decoder"), weights_TS.amax(dim=-1).mean().item()
        drawing = heat_map(values, labels, full=1.0, title=f"{label}, {place}: largest weight {largest:.2f} on average")
        pictures.append(Picture(name, drawing, caption, detail=bool(pictures) and name != "surface"))
        alignments: list[tuple[Cell, ...]] = [
            (name, rows[t], columns[int(row.argmax())], float(row.max())) for t, row in enumerate(weights_TS)
        ]
        cells += alignments
        data.append({"map": name, "weights": values, "alignment": [int(row.argmax()) for row in weights_TS]})
    head = ("map", "target token", "attends most to", "weight")
    content = {"run": str(run), "source": columns, "target": rows, "maps": data}
    return Finding("attention", f"Attention to the source: {label}", READING, pictures, head, cells, content)


def maps(model: Seq2Seq, source_1S: Tensor, prefix_1T: Tensor) -> list[tuple[str, str, Tensor]]:
    """Name, caption and weights (T, S) of each map."""
    with torch.inference_mode():
        layers = model.attention(source_1S, prefix_1T)
        surface_HTS = surface_attention(model, source_1S, prefix_1T)
    found: list[tuple[str, str, Tensor]] = []
    for number, streams in reversed(list(enumerate(layers, 1))):
        for stream, weights_1HTS in zip(STREAMS, streams, strict=False):
            suffix = f"-{stream}" if len(streams) > 1 else ""
            title = f"Decoder layer {number}" + (f", {stream} stream" if suffix else "")
            caption = f"{title}, averaged over {counted(weights_1HTS.shape[1], 'head')}."
            found.append((f"layer{number}{suffix}", caption, weights_1HTS[0].mean(dim=0)))
            if number == len(layers):
                found += [
                    (f"layer{number}{suffix}-head{head}", f"{title}, head {head}.", weights_TS)
                    for head, weights_TS in enumerate(weights_1HTS[0], 1)
                ]
    if surface_HTS is not None:
        found.append(("surface", "SurfaceFusion's reader of the source embedding.", surface_HTS.mean(dim=0)))
    return found


def surface_attention(model: Seq2Seq, source_1S: Tensor, prefix_1T: Tensor) -> Tensor | None:
    """Attention weights (H, T, S) of the surface reader, or None if the model has none."""
    if not isinstance(model.head, SurfaceHead) or not isinstance(model.head.reader, AttentionReader):
        return None
    attention = model.head.reader.attention
    attention.recorded_weights = []
    try:
        memory = model.project_source(source_1S)
        model.head.sides(model.decode(prefix_1T, memory), memory.head)
        return attention.recorded_weights[0][0]
    finally:
        attention.recorded_weights = None
