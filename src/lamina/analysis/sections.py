"""Parts that pages about runs have in common: scores, examples side by side, training curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from html import escape

from lamina.analysis.page import definitions, figure, paragraph, section, side_by_side, table
from lamina.figures.axes import Axis
from lamina.figures.charts import Series, line_chart
from lamina.scoring.compare import Row
from lamina.store.metrics import Records

LOSS = "loss (nats per token)"


@dataclass(frozen=True)
class Outputs:
    """A test set and what each system, by its name, made of it."""

    sources: list[str]
    references: list[str]
    by_system: dict[str, list[str]]

    def examples(self, count: int) -> list[int]:
        """Sentences to look at: the first ones, and as many on which systems differ, the shorter ones first."""

        def differ(number: int) -> bool:
            return len({output[number] for output in self.by_system.values()}) > 1

        first = list(range(min((count + 1) // 2, len(self.sources))))
        others = [number for number in range(len(first), len(self.sources)) if differ(number)]
        return [*first, *sorted(others, key=lambda number: len(self.sources[number]) // 40)][:count]


def score_section(rows: Sequence[Row]) -> str:
    """One table with intervals and p-values; the first system is the baseline."""
    cells: list[tuple[str, ...]] = [
        (
            row.metric,
            row.system,
            f"{row.score:.2f}",
            f"{row.interval.low:.1f} to {row.interval.high:.1f}",
            "baseline" if row.difference is None else f"{row.difference:+.2f}",
            "" if row.p_bootstrap is None else f"{row.p_bootstrap:.3f}",
        )
        for row in rows
    ]
    head = ["metric", "system", "score", "95 % interval", "difference", "p"]
    signatures = " · ".join(dict.fromkeys(f"{row.metric}: {row.signature}" for row in rows))
    alone = len({row.system for row in rows}) == 1
    if alone:  # compared with nothing
        head, cells = head[:4], [row[:4] for row in cells]
    note = paragraph(
        f"{'Intervals' if alone else 'Intervals and p'} from 1,000 bootstrap samples; {signatures}", "soft"
    )
    return section("Scores", table(head, cells), note)


def example_section(outputs: Outputs, count: int) -> str:
    """Some sentences by every system; words that are not in the reference are marked."""
    cards = []
    for number in outputs.examples(count):
        reference = outputs.references[number]
        by_system = [(name, marked(lines[number], reference)) for name, lines in outputs.by_system.items()]
        cards.append(
            definitions([("source", escape(outputs.sources[number])), *by_system, ("reference", escape(reference))])
        )
    return section("Sentences", *cards)


def marked(words: str, reference: str) -> str:
    """HTML with the words marked that differ from a reference."""
    own, others = words.split(), reference.split()
    parts = []
    for kind, start, end, _, _ in SequenceMatcher(None, own, others, autojunk=False).get_opcodes():
        piece = escape(" ".join(own[start:end]))
        if piece:
            parts.append(piece if kind == "equal" else f"<mark>{piece}</mark>")
    return " ".join(parts)


def curve_section(records: Mapping[str, Records]) -> str:
    """Training and validation loss, and BLEU where it was taken at validation."""
    pictures = [
        curve(records, "train", "nll", LOSS, training_caption(records)),
        curve(records, "valid", "nll", LOSS, "Cross-entropy on validation pairs, normalised, without smoothing."),
        curve(records, "valid", "bleu", "BLEU", "BLEU on validation pairs."),
    ]
    return section("Training", side_by_side([picture for picture in pictures if picture]))


def training_caption(records: Mapping[str, Records]) -> str:
    """Names the runs whose training loss does not compare with the others'."""
    caption = "Cross-entropy on training pairs, without smoothing."
    unnormalised = [name for name, each in records.items() if each.curve("valid", "normalised_nll")]
    if unnormalised and len(records) > len(unnormalised):
        caption += f" Not comparable for {', '.join(unnormalised)}, whose head is not normalised in training."
    return caption


def curve(records: Mapping[str, Records], kind: str, key: str, label: str, caption: str) -> str:
    """One number of several runs over steps; nothing if none has it."""
    series = [
        Series(name, each.curve(kind, f"normalised_{key}") or each.curve(kind, key)) for name, each in records.items()
    ]
    points = [point for each in series for point in each.points]
    if not points:
        return ""
    x = Axis.over("training step", [step for step, _ in points], zero=True)
    y = Axis.over(label, [value for _, value in points], log=key == "nll")
    return figure(line_chart(series, x, y), caption)
