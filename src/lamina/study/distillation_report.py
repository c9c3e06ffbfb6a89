"""Distillation report: quality with significance, speed and size of teacher, student and baseline."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from lamina.base.files import write_file
from lamina.corpus.reading import read_test
from lamina.scoring.compare import compare_outputs
from lamina.scoring.protocol import Gold
from lamina.translation import Translator, load

ROUNDS, TIMED = 3, 200  # timing rounds and sentences per round


@dataclass(frozen=True)
class ReportRow:
    """One system of the report."""

    system: str
    layers: str
    parameters: int
    bleu: float
    difference: float | None  # from the teacher
    p: float | None
    sentences_per_second: float
    speed: float  # relative to the teacher


def compare_students(
    runs: Mapping[str, Sequence[Path]], test: tuple[Path, Path], device: str, threads: int | None
) -> list[ReportRow]:
    """Compare systems in one row each; the first is the teacher (a run or an ensemble)."""
    sources, references = read_test(*test)
    translators = {name: load(*paths, device=device, threads=threads) for name, paths in runs.items()}
    outputs = {name: [each.text for each in model.translate(sources)] for name, model in translators.items()}
    rates = time_translators(translators, sources[:TIMED])
    language = next(iter(translators.values())).text.target.language
    gold = Gold([references], sources, False, [str(test[1])], language=language)
    scores = compare_outputs(list(outputs), list(outputs.values()), gold, metrics=["bleu"])
    teacher_rate = rates[next(iter(rates))]
    rows = []
    for score in scores:
        models = translators[score.system].models
        config = models[0].config
        rows.append(
            ReportRow(
                score.system,
                f"{config.encoder.layers}+{config.decoder.layers}",
                sum(parameter.numel() for model in models for parameter in model.parameters()),
                round(score.score, 2),
                None if score.difference is None else round(score.difference, 2),
                None if score.p_bootstrap is None else round(score.p_bootstrap, 4),
                round(rates[score.system], 1),
                round(rates[score.system] / teacher_rate, 2),
            )
        )
    return rows


def time_translators(translators: dict[str, Translator], sources: Sequence[str]) -> dict[str, float]:
    """Sentences per second of each system: the median over interleaved rounds."""
    seconds: dict[str, list[float]] = {name: [] for name in translators}
    for translator in translators.values():
        translator.translate(sources[:8])  # warm-up
    for _ in range(ROUNDS):
        for name, translator in translators.items():
            started = time.perf_counter()
            translator.translate(sources)
            seconds[name].append(time.perf_counter() - started)
    return {name: len(sources) / statistics.median(each) for name, each in seconds.items()}


def table_of(rows: Sequence[ReportRow]) -> list[tuple[str, ...]]:
    """The report as rows of text, header first."""
    head = ("system", "layers", "parameters", "BLEU", "difference", "p", "sentences/s", "speed")
    texts = [
        (
            *(row.system, row.layers, f"{row.parameters:,}", f"{row.bleu:.2f}"),
            "" if row.difference is None else f"{row.difference:+.2f}",
            "" if row.p is None else f"{row.p:.4f}",
            *(f"{row.sentences_per_second:.1f}", f"{row.speed:.2f}×"),
        )
        for row in rows
    ]
    return [head, *texts]


def write_report(rows: Sequence[ReportRow], folder: Path) -> None:
    """Write `report.md` and `report.json`."""
    lines = [" | ".join(cells) for cells in table_of(rows)]
    lines.insert(1, " | ".join("---" for _ in table_of(rows)[0]))
    text = "".join(f"| {line} |\n" for line in lines)
    note = "Difference, p (paired bootstrap) and speed are relative to the teacher.\n"
    write_file(folder / "report.md", f"# Distillation\n\n{text}\n{note}")
    write_file(folder / "report.json", json.dumps([asdict(row) for row in rows], indent=2) + "\n")
