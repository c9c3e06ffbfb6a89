"""HTML report on one or more runs: scores, examples, curves, all applicable figures, recipes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from lamina.analysis.attention import analyze_attention
from lamina.analysis.finding import Finding, label_runs
from lamina.analysis.gradients import analyze_gradients
from lamina.analysis.layers import analyze_layers
from lamina.analysis.masking import analyze_masking
from lamina.analysis.page import code, folded, page, paragraph, section
from lamina.analysis.sections import Outputs, curve_section, example_section, score_section
from lamina.base.files import write_file
from lamina.base.progress import Progress, no_progress, tracked
from lamina.base.wording import listed
from lamina.errors import LaminaError
from lamina.scoring.compare import compare_outputs
from lamina.scoring.protocol import Gold
from lamina.store.history import read_records
from lamina.translation import load

EXAMPLES = 6
PAIRS = 200  # for averaging gates
Test = tuple[list[str], list[str]]  # sources and references


def write_report(path: Path, runs: Sequence[Path], test: Test | None, progress: Progress = no_progress) -> None:
    """Write every section that applies to the runs and the test set; the page ends with a list of those left out."""
    names = label_runs(runs)
    missing: list[str] = []
    parts: list[str] = []
    if test is not None:
        parts += test_sections(names, runs, test, progress)
    parts.append(curve_section({name: read_records(run) for name, run in zip(names, runs, strict=True)}))
    for finding in findings(runs, test, missing, progress):
        parts.append(finding.as_section())
    recipes = []
    for name, run in zip(names, runs, strict=True):
        recipe = run / "recipe.yaml"
        if recipe.is_file():
            recipes.append(folded(f"Recipe of {name}", code(recipe.read_text(encoding="utf-8"))))
    if recipes:
        parts.append(section("Recipes", *recipes))
    if missing:
        parts.append(section("Not included", *(paragraph(line, "soft") for line in missing)))
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, page(f"Report on {listed(names)}", parts))


def test_sections(names: Sequence[str], runs: Sequence[Path], test: Test, progress: Progress) -> Iterator[str]:
    """Sections with scores, significance tests and examples."""
    sources, references = test
    translators = [load(run) for run in runs]
    systems = tracked(list(zip(names, translators, strict=True)), "translating with runs", progress)
    outputs = {name: [each.text for each in translator.translate(sources)] for name, translator in systems}
    gold = Gold([references], sources, False, ["test"], translators[0].text.target.language)
    yield score_section(compare_outputs(names, list(outputs.values()), gold))
    yield example_section(Outputs(sources, references, outputs), EXAMPLES)


def findings(runs: Sequence[Path], test: Test | None, missing: list[str], progress: Progress) -> Iterator[Finding]:
    """Run each analysis; the reason why one does not apply is appended to `missing`."""
    attempts: list[Callable[[], Finding]] = [partial(analyze_gradients, runs)]
    pairs = list(zip(*test, strict=True))[:PAIRS] if test else []
    for run in runs:
        attempts.append(partial(analyze_layers, run, pairs))
        if test is not None:
            attempts.append(partial(analyze_masking, run, *test))
            attempts.append(partial(analyze_attention, run, shortest(test[0])))
    for attempt in tracked(attempts, "drawing figures", progress):
        try:
            yield attempt()
        except LaminaError as error:
            missing.append(str(error))


def shortest(sources: Sequence[str]) -> str:
    """Shortest source with at least five words, so that its map is neither trivial nor too large."""
    return min((line for line in sources if len(line.split()) >= 5), key=len, default=sources[0])
