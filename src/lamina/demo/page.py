"""Report of the demo: scores with significance, examples side by side, curves, gradient norms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from lamina.analysis.attention import analyze_attention
from lamina.analysis.finding import Finding
from lamina.analysis.gradients import analyze_gradients
from lamina.analysis.page import code, page, paragraph, section
from lamina.analysis.sections import Outputs, curve_section, example_section, score_section, verdict
from lamina.scoring.compare import Row
from lamina.store.metrics import Records

EXAMPLES = 8


def demo_page(outputs: Outputs, rows: Sequence[Row], records: Mapping[str, Records]) -> str:
    """Render the report."""
    runs = [each.run for each in records.values()]
    bleu = [row for row in rows if row.metric == "bleu"]
    return page(
        "Lamina: a plain and a fused model, side by side",
        [
            paragraph(
                "Two small models learned to translate English sentences of a grammar into German: a plain "
                "Transformer, and a fused one, whose decoder layers each read their own block of the encoder (MSC, Wei "
                "et al. 2020) and whose softmax reads the source embedding once more (SurfaceFusion, Liu et al. 2021). "
                f"{verdict(*bleu)}, on {len(outputs.sources)} sentences that neither has seen. Both are early in "
                "training, where fused models are furthest ahead: with more --steps the difference shrinks."
            ),
            score_section(rows),
            example_section(outputs, EXAMPLES),
            curve_section(records),
            attention(runs[-1], outputs).as_section(),
            analyze_gradients(runs).as_section(),
            section("What to try next", code(next_commands(runs[0].parent.parent))),
        ],
    )


def attention(run: Path, outputs: Outputs) -> Finding:
    """Attention maps of one sentence: the top layer's and, if there is one, the surface reader's."""
    found = analyze_attention(run, outputs.sources[outputs.examples(1)[0]])
    top, *others = found.pictures
    surface = [picture for picture in others if picture.name == "surface"]
    return replace(found, pictures=[top, *surface], rows=[])


def next_commands(out: Path) -> str:
    """Suggested commands with the demo's paths."""
    plain, fused, test = out / "runs" / "plain", out / "runs" / "fused", out / "text" / "test"
    return "\n".join(
        [
            f"lamina translate {fused}      # and type a sentence",
            f"lamina compare {plain} {fused} --test {test}.en {test}.de --significance both",
            f'lamina analyze attention {fused} --source "The dog sleeps."',
            "lamina recipes                  # the papers' settings, and small ones for your CPU",
            "lamina prepare --train train.en train.de --valid dev.en dev.de --out data    # your own text",
        ]
    )
