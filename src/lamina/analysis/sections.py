"""Shared page sections: scores, examples side by side, training curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from html import escape

from lamina.analysis.page import definitions, figure, paragraph, section, side_by_side, table
from lamina.figures.axes import Axis
from lamina.figures.charts import Series, line_chart
from lamina.scoring.compare import Row
from lamina.store.history import Records

LOSS = "nats per token"
NAMES = {"bleu": "BLEU", "chrf": "chrF", "ter": "TER"}


@dataclass(frozen=True)
class Outputs:
    """A test set and its translations by each system."""

    sources: list[str]
    references: list[str]
    by_system: dict[str, list[str]]

    def examples(self, count: int) -> list[int]:
        """Choose example sentences: half are the first ones, half those on which systems differ, shorter ones first."""

        def differ(number: int) -> bool:
            return len({output[number] for output in self.by_system.values()}) > 1

        first = list(range(min((count + 1) // 2, len(self.sources))))
        others = [number for number in range(len(first), len(self.sources)) if differ(number)]
        return [*first, *sorted(others, key=lambda number: len(self.sources[number]) // 40)][:count]


def score_section(rows: Sequence[Row]) -> str:
    """Render a verdict and a table per metric, with intervals and p-values; the first system is the baseline."""
    parts = []
    for metric in dict.fromkeys(row.metric for row in rows):
        own = [row for row in rows if row.metric == metric]
        cells: list[tuple[str, ...]] = [
            (
                row.system,
                f"{row.score:.2f} ({row.interval.low:.1f}–{row.interval.high:.1f})",
                "baseline" if row.difference is None else f"{row.difference:+.2f}",
                "" if row.p_bootstrap is None else p_text(row.p_bootstrap),
            )
            for row in own
        ]
        head = ["system", f"{metric} (95% interval)", "difference", "p"]
        if len(own) == 1:  # no other system to compare
            head, cells = head[:2], [row[:2] for row in cells]
        parts += [*(paragraph(f"{verdict(own[0], row)}.") for row in own[1:]), table(head, cells)]
    signatures = " · ".join(dict.fromkeys(f"{row.metric}: {row.signature}" for row in rows))
    note = paragraph(f"Intervals and p-values from 1,000 bootstrap samples; {signatures}", "soft signature")
    return section("Scores", *parts, note)


def verdict(baseline: Row, other: Row) -> str:
    """Describe whether a system differs significantly from the baseline."""
    metric, p, difference = NAMES.get(other.metric, other.metric), other.p_bootstrap, other.difference or 0.0
    scores = f"{other.system} {other.score:.2f}, {baseline.system} {baseline.score:.2f}"
    if p is None or p >= 0.05:
        p_note = f" (p = {p_text(p)})" if p is not None else ""
        return f"No significant difference in {metric} between {other.system} and {baseline.system}{p_note}: {scores}"
    better = "better" if (difference > 0) == other.higher_is_better else "worse"
    return f"{other.system} is significantly {better} than {baseline.system} in {metric} (p = {p_text(p)}): {scores}"


def p_text(p: float) -> str:
    """Format a p-value with two decimals, or three below 0.1."""
    return f"{p:.2f}" if p >= 0.1 else f"{p:.3f}"


def example_section(outputs: Outputs, count: int) -> str:
    """Render example translations of all systems; words that are not in the reference are marked."""
    cards = []
    for number in outputs.examples(count):
        reference = outputs.references[number]
        by_system = [(name, marked(lines[number], reference)) for name, lines in outputs.by_system.items()]
        cards.append(
            definitions([("source", escape(outputs.sources[number])), *by_system, ("reference", escape(reference))])
        )
    note = "Marked words differ from the reference; ␣ marks where words of the reference are missing."
    return section("Sentences", paragraph(note, "soft"), *cards)


def marked(words: str, reference: str) -> str:
    """Mark words that differ from the reference and gaps where its words are missing, as HTML."""
    own, others = words.split(), reference.split()
    parts = []
    for kind, start, end, first, last in SequenceMatcher(None, own, others, autojunk=False).get_opcodes():
        piece = escape(" ".join(own[start:end]))
        if piece:
            parts.append(piece if kind == "equal" else f"<mark>{piece}</mark>")
        else:  # a gap
            missing = escape(" ".join(others[first:last]))
            parts.append(f'<mark class="gap" title="missing: {missing}">␣</mark>')
    return " ".join(parts)


def curve_section(records: Mapping[str, Records]) -> str:
    """Render curves of training loss, validation loss and, if recorded, validation BLEU."""
    pictures = [
        curve(comparable(records), "train", "nll", "Training loss", training_caption(records)),
        curve(records, "valid", "nll", "Validation loss", "Cross-entropy on validation pairs, normalised, unsmoothed."),
        curve(records, "valid", "bleu", "Validation BLEU", "BLEU on validation pairs."),
    ]
    return section("Training", side_by_side([picture for picture in pictures if picture]))


def training_caption(records: Mapping[str, Records]) -> str:
    """Caption that names the runs whose training loss is not comparable."""
    caption = "Cross-entropy on training pairs, without smoothing."
    left_out = {name: each for name, each in records.items() if name not in comparable(records)}
    if unvalidated := [name for name, each in left_out.items() if not each.curve("valid", "nll")]:
        caption += f" {', '.join(unvalidated)} not shown: not validated yet, so perhaps not comparable."
    if unlike := [name for name in left_out if name not in unvalidated]:
        caption += f" {', '.join(unlike)} not shown: not normalised in training, so not comparable; see validation."
    return caption


def comparable(records: Mapping[str, Records]) -> Mapping[str, Records]:
    """Runs with comparable training losses: those whose head is normalised, as validation shows, or all if none is."""
    normalised = {
        name: each
        for name, each in records.items()
        if each.curve("valid", "nll") and not each.curve("valid", "normalised_nll")
    }
    return normalised or records


def curve(records: Mapping[str, Records], kind: str, key: str, title: str, caption: str) -> str:
    """Plot one metric of several runs over steps; empty if no run has it."""
    series = [
        Series(name, each.curve(kind, f"normalised_{key}") or each.curve(kind, key)) for name, each in records.items()
    ]
    series = [each for each in series if each.points]
    if not series:
        return ""
    points = [point for each in series for point in each.points]
    x = Axis.over("training step", [step for step, _ in points], zero=True)
    y = Axis.over(LOSS if key == "nll" else "BLEU", [value for _, value in points], log=key == "nll")
    choose = min if key == "nll" else max
    if kind == "train":  # too noisy for its minimum to mean anything
        best, verb = choose((each.points[-1][1], each.name) for each in series), "ends at"
    else:
        best, verb = choose((choose(value for _, value in each.points), each.name) for each in series), "reaches"
    drawn = line_chart(series, x, y, title=f"{title}: {best[1]} {verb} {best[0]:.3g}")
    return figure(drawn, caption)
