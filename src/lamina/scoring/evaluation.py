"""Translation and scoring of a test set with runs and baselines."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypedDict, overload

from lamina.base.files import StrPath
from lamina.base.progress import Progress, no_progress
from lamina.base.reading import read_lines
from lamina.corpus.reading import TwoFiles
from lamina.corpus.records import are_two_paths, is_path
from lamina.corpus.sources import read_pairs
from lamina.errors import UsageError
from lamina.figures.tables import html_table
from lamina.names import nearest
from lamina.recipe.decode import SearchSettings
from lamina.recipe.options import SearchOptions
from lamina.scoring.files import read_test_set
from lamina.scoring.metrics import build_metrics
from lamina.scoring.protocol import Gold, Score, score
from lamina.scoring.significance import score_interval
from lamina.store.loading import find_model_folder
from lamina.text.pipeline import find_languages
from lamina.translation import Translator, load

TestSet = tuple[StrPath, StrPath] | StrPath | Iterable[Any]  # two files, one file, or pairs


@dataclass(frozen=True, repr=False)
class Scores(Sequence[Score]):
    """The scores of one output, by index or metric name, and the output itself."""

    scores: Sequence[Score]
    translations: list[str] = field(default_factory=list)

    @overload
    def __getitem__(self, index: int | str) -> Score: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Score]: ...

    def __getitem__(self, index: int | str | slice) -> Score | Sequence[Score]:
        if isinstance(index, str):
            by_name = {each.name: each for each in self.scores}
            if index not in by_name:
                raise KeyError(f"{index}: not a metric of these scores, {', '.join(by_name)}.{nearest(index, by_name)}")
            return by_name[index]
        return self.scores[index]

    def __contains__(self, item: object) -> bool:
        return any(item in (each, each.name) for each in self.scores)

    def __len__(self) -> int:
        return len(self.scores)

    def __repr__(self) -> str:
        return "\n".join(map(str, self.scores))

    def _repr_html_(self) -> str:
        rows = [(each.name, each.value, each.signature) for each in self.scores]
        return html_table(("metric", "score", "signature"), rows)


def open_test_set(
    test: TestSet,
    references: Sequence[StrPath] = (),
    *,
    lowercase: bool = False,
    m2: bool = False,
    tokenize: str | None = None,
    langs: tuple[str, str] | None = None,
) -> tuple[list[str], Gold]:
    """Open a test set as sources and gold; `references` are additional files, and `langs` may name columns."""
    for each in references:
        if not is_path(each):
            raise UsageError(f"references must be files, but one is a {type(each).__name__} instead.")
    more = [Path(each) for each in references]
    if m2 and is_path(test):
        test = (test, test)
    if are_two_paths(test):
        source, target = map(Path, test)
        TwoFiles(source, target).check_direction(langs, "test set")
        return read_test_set((source, target), more, lowercase=lowercase, m2=m2, tokenize=tokenize)
    if m2:
        raise UsageError("m2 needs files: an .m2 file, or (source, .m2 file).")
    sources, targets = read_pairs(test, "test", langs)
    gold = [targets, *(list(read_lines(path)) for path in more)]
    return sources, Gold(gold, sources, lowercase, ["test", *map(str, more)], None, tokenize)


class LoadingOptions(TypedDict, total=False):
    """How a run is loaded: arguments of `lamina.load`."""

    checkpoint: str | int
    int8: bool
    shortlist: StrPath | None
    device: Literal["auto", "cpu", "cuda"]
    threads: int | None


class DecodingOptions(LoadingOptions, SearchOptions, total=False):
    """How a run is loaded and searched with: arguments of `lamina.load`, and search options."""


def translate_all(
    translator: Translator, name: str, lines: Sequence[str], settings: SearchSettings, progress: Progress
) -> list[str]:
    """Translate a test set."""
    results: list[str] = []
    progress(f"translating with {name}", 0, len(lines))
    for result in translator.stream(lines, settings):
        results.append(result.text)
        progress(f"translating with {name}", len(results), len(lines))
    return results


def open_run(run: StrPath | Translator, loading: LoadingOptions, progress: Progress = no_progress) -> Translator:
    """Load a run; a `Translator` is already loaded."""
    if isinstance(run, Translator) and loading:
        raise UsageError(f"Pass {', '.join(loading)} to lamina.load; a model that is already loaded keeps its own.")
    if not isinstance(run, Translator | str | os.PathLike):
        raise UsageError(f"A run must be a path or the result of lamina.load, but is a {type(run).__name__} instead.")
    for name in loading:
        if name not in LoadingOptions.__annotations__:
            raise UsageError(f"{name}: not an option of lamina.load.{nearest(name, LoadingOptions.__annotations__)}")
    progress(f"loading {name_of(run)}", 0, None)
    translator = run if isinstance(run, Translator) else load(run, **loading)
    progress(f"loading {name_of(run)}", 1, 1)
    return translator


def languages_of(run: StrPath | Translator | None) -> tuple[str, str] | None:
    """The languages of a run, which may name the columns of its test sets; None without a run."""
    if isinstance(run, Translator):
        return run.text.source.language, run.text.target.language
    return find_languages(find_model_folder(run)) if isinstance(run, str | os.PathLike) else None


def run_on_test(
    run: StrPath | Translator, decoding: DecodingOptions, sources: Sequence[str], gold: Gold, progress: Progress
) -> tuple[list[str], Gold]:
    """Translate a test set with a run; also return the gold with the run's target language."""
    search: dict[str, Any] = {**decoding}
    loading: Any = {name: search.pop(name) for name in LoadingOptions.__annotations__ if name in search}
    translator = open_run(run, loading, progress)
    settings = translator.settings.with_options(**search)
    lines = translate_all(translator, name_of(run), sources, settings, progress)
    return lines, replace(gold, language=translator.text.target.language)


def name_runs(runs: Sequence[StrPath | Translator]) -> list[str]:
    """Give each system a distinct name: its path, or a number for a `Translator`."""
    return [
        f"{name_of(run)} {number}" if isinstance(run, Translator) else name_of(run)
        for number, run in enumerate(runs, start=1)
    ]


def name_of(run: StrPath | Translator) -> str:
    """Name of a system in tables and messages."""
    return "model" if isinstance(run, Translator) else str(Path(run))


def score_output(lines: list[str], names: Sequence[str], gold: Gold) -> Scores:
    """Score one output, with confidence intervals, which one sentence does not have."""
    found = [
        replace(score(each, lines), interval=score_interval(each, lines) if len(lines) > 1 else None)
        for each in build_metrics(names, gold)
    ]
    return Scores(found, lines)
