"""`lamina.evaluate`, `lamina.compare`, `lamina.score` and `lamina.rescore`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Unpack

    from lamina.base.files import StrPath
    from lamina.base.progress import Progress
    from lamina.scoring.compare import Comparison
    from lamina.scoring.evaluation import DecodingOptions, LoadingOptions, Scores, TestSet
    from lamina.translation import Translation, Translator


def evaluate(
    run: StrPath | Translator | None,
    test: TestSet,
    *,
    metrics: str | Sequence[str] = ("bleu", "chrf"),
    references: Sequence[StrPath] = (),
    baseline: str | None = None,
    lowercase: bool = False,
    tokenize: str | None = None,
    progress: bool | Progress | None = None,
    **decoding: Unpack[DecodingOptions],
) -> Scores:
    """Translate a test set and score it, like `lamina eval`.

    `run` is a run, a model folder or the result of `lamina.load`; None with `baseline="copy"` or `"lead-3"` scores a
    trivial system. `test` is two files `(source, target)`, a `.tsv` or `.jsonl` file, or any iterable of pairs or of
    mappings, in which source and target are named `src` and `tgt`, or after the run's languages.
    `decoding` takes `checkpoint`, `device` and the other arguments of `lamina.load`, and search options such as `beam`
    and `lenpen`, whose defaults are the run's. The other arguments are the options of `lamina eval`; `progress` is as
    in `lamina.prepare`.

    Example:
        >>> scores = lamina.evaluate("runs/first", ("test.en", "test.de"), beam=2)
        >>> scores["bleu"].score
        0.0...
        >>> len(scores.translations)
        8
        >>> lamina.evaluate(None, [("A dog.", "A dog.")], baseline="copy", metrics="chrf")["chrf"].score
        100.0
    """
    from lamina.base.arguments import as_list, check_options
    from lamina.base.progress import show_progress
    from lamina.errors import UsageError
    from lamina.scoring.baselines import run_baseline
    from lamina.scoring.evaluation import DecodingOptions, languages_of, open_test_set, run_on_test, score_output
    from lamina.scoring.metrics import names_to_compare

    check_options(decoding, DecodingOptions.__annotations__, evaluate)
    if (run is None) == (baseline is None):
        raise UsageError("Give either a run or a baseline (copy or lead-K).")
    names = names_to_compare(as_list(metrics))
    files, langs = as_list(references), languages_of(run)
    sources, gold = open_test_set(test, files, lowercase=lowercase, m2="m2" in names, tokenize=tokenize, langs=langs)
    if run is None:
        return score_output(run_baseline(str(baseline), sources), names, gold)
    with show_progress(progress) as shown:
        lines, gold = run_on_test(run, decoding, sources, gold, shown)
    return score_output(lines, names, gold)


def compare(
    runs: Sequence[StrPath | Translator],
    test: TestSet,
    *,
    baselines: Sequence[str] = (),
    metrics: str | Sequence[str] = ("bleu", "chrf"),
    references: Sequence[StrPath] = (),
    lowercase: bool = False,
    tokenize: str | None = None,
    significance: Literal["bootstrap", "randomisation", "both"] = "bootstrap",
    samples: int | None = None,
    seed: int = 1,
    progress: bool | Progress | None = None,
    **decoding: Unpack[DecodingOptions],
) -> Comparison:
    """Compare runs on a test set, like `lamina compare`: scores with 95% intervals, differences and p-values.

    The first system is the baseline: the first of `baselines` (`"copy"`, `"lead-3"`) if there are any, else the first
    run. `significance`, `samples` and `seed` are options of `lamina compare`; the other arguments are those of
    `lamina.evaluate` and apply to every run. A run is named by its path, a loaded model `model N` by its position.

    Example:
        >>> comparison = lamina.compare(["runs/first", "runs/second"], ("test.en", "test.de"), metrics="chrf")
        >>> [(row.system, row.p_bootstrap) for row in comparison]
        [('runs/first', None), ('runs/second', ...)]
        >>> print(comparison)
        metric  system       score         difference  p (bootstrap)
        chrf    runs/first   ...
    """
    from lamina.base.arguments import as_list, check_choice, check_counts, check_options, reject
    from lamina.base.progress import show_progress
    from lamina.errors import UsageError
    from lamina.scoring.baselines import run_baseline
    from lamina.scoring.compare import Comparison, compare_outputs
    from lamina.scoring.evaluation import DecodingOptions, languages_of, name_runs, open_test_set, run_on_test
    from lamina.scoring.metrics import names_to_compare

    check_options(decoding, DecodingOptions.__annotations__, compare)
    check_choice("significance", significance, ("bootstrap", "randomisation", "both"))
    check_counts(samples=samples)
    check_counts(0, seed=seed)
    if isinstance(runs, Mapping):
        reject("runs", "a list of paths or results of lamina.load", runs)
    runs, baselines = as_list(runs), as_list(baselines)
    systems = [*baselines, *name_runs(runs)]
    if len(systems) < 2:
        given = f"Only {systems[0]} was given" if systems else "No run was given"
        raise UsageError(f"{given}. Give the baseline first, then the systems to compare with it.")
    names = names_to_compare(as_list(metrics))
    files, langs = as_list(references), languages_of(runs[0]) if runs else None
    sources, gold = open_test_set(test, files, lowercase=lowercase, m2="m2" in names, tokenize=tokenize, langs=langs)
    outputs = [run_baseline(name, sources) for name in baselines]
    with show_progress(progress) as shown:
        for run in runs:
            lines, gold = run_on_test(run, decoding, sources, gold, shown)
            outputs.append(lines)
    rows = compare_outputs(systems, outputs, gold, metrics=names, test=significance, samples=samples, seed=seed)
    return Comparison(rows, significance, dict(zip(systems, outputs, strict=True)), len(outputs[0]))


def score(
    output: StrPath | Iterable[str | Translation],
    references: StrPath | Sequence[StrPath | Sequence[str]],
    *,
    source: StrPath | Iterable[str] | None = None,
    metrics: str | Sequence[str] = ("bleu", "chrf"),
    lowercase: bool = False,
    tokenize: str | None = None,
    language: str | None = None,
) -> Scores:
    """Score existing output, like `lamina score`, with confidence intervals.

    `output` is a file, or the texts or translations themselves. `references` is a file or a list of files; or a list
    with one text per output, or several such lists. For `m2`, both are files. `language` selects BLEU's tokenizer for
    texts; for files, their suffix does. The other arguments are the options of `lamina score`.

    Example:
        >>> lamina.score(["A dog runs.", "Two cats sleep."], ["A dog runs fast.", "Two cats sleep."], metrics="chrf")
        chrf  79.2... ± ...  nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:...
        >>> float(lamina.score("test.de", "test.de")["bleu"])
        100.0...
    """
    from pathlib import Path

    from lamina.base.arguments import as_list, check_path, reject
    from lamina.corpus.records import is_path
    from lamina.scoring.evaluation import score_output
    from lamina.scoring.files import read_texts
    from lamina.scoring.metrics import names_to_compare
    from lamina.scoring.protocol import Gold
    from lamina.translation import Translation

    names = names_to_compare(as_list(metrics))
    if is_path(output):
        if source is not None:
            check_path("source", source, "a file if the output is a file")
        paths, read = [_find_file(each) for each in as_list(references)], Path(source) if is_path(source) else None
        (lines,), gold = read_texts(
            [_find_file(output)], paths, read, lowercase=lowercase, m2="m2" in names, tokenize=tokenize
        )
        return score_output(lines, names, gold)
    texts = as_list(output)
    lines = [str(each) if isinstance(each, str | Translation) else reject("output", "texts", each) for each in texts]
    if "m2" in names or is_path(references):
        reject("output", "a file, because the reference is one", "a list of texts")
    if language is not None and not isinstance(language, str):
        reject("language", "the code of a language, such as 'en'", language)
    several = _group(references, len(lines))
    sources = None if source is None else as_list(source)
    return score_output(lines, names, Gold(several, sources, lowercase, (), language, tokenize))


def _group(references: Any, outputs: int) -> list[list[str]]:
    """Lists of references, each with one text per output."""
    from lamina.base.arguments import as_list, reject
    from lamina.base.wording import counted
    from lamina.errors import UsageError

    lists = as_list(references)
    if not all(isinstance(each, str) for part in lists for each in as_list(part)):
        reject("references", "texts, or files", references)
    one = all(isinstance(each, str) for each in lists)
    several = [lists] if one else [as_list(each) for each in lists]
    counts = sorted({len(each) for each in several} - {outputs})
    if counts:
        needed = f"{counted(outputs, 'text')}, one per output, or several lists of as many"
        given = f"{counts[0]:,}" if one else f"{counted(len(several), 'list')} of {counts[0]:,}"
        grouped = len(several) == outputs and len({len(each) for each in several}) == 1
        hint = " If they are grouped by output, pass list(zip(*references))." if grouped else ""
        raise UsageError(f"references must be {needed}; given: {given}.{hint}")
    return several


def _find_file(given: StrPath) -> Path:
    from pathlib import Path

    from lamina.errors import DataError

    if not Path(given).exists():
        raise DataError(f"{given}: not found. One text must be given as [text].")
    return Path(given)


def rescore(
    run: StrPath | Translator, pairs: TestSet, *, lenpen: float | None = None, **loading: Unpack[LoadingOptions]
) -> list[Translation]:
    """Compute a model's log-probabilities of given translations, like `lamina rescore`.

    `pairs` are sources and translations, in the forms of `test` in `lamina.evaluate`. Each result has the given text,
    its `log_prob` and its `score`: log p divided by the length (incl. eos) to the power of `lenpen` (default: the
    run's). `loading` takes the arguments of `lamina.load`.

    Example:
        >>> good, bad = lamina.rescore("runs/first", [("A dog.", "Ein Hund."), ("A dog.", "Haus")])
        >>> good
        Translation('Ein Hund.', score=-...)
    """
    from dataclasses import replace

    from lamina.corpus.sources import read_pairs
    from lamina.scoring.evaluation import languages_of, open_run
    from lamina.translation.rescoring import Given, rescore_all

    translator = open_run(run, loading)
    texts = enumerate(zip(*read_pairs(pairs, "pairs", languages_of(translator)), strict=True), start=1)
    given = [Given(number, source, translation) for number, (source, translation) in texts]
    return [
        replace(translator.to_translation([found], 1, cut), text=str(each.translation))
        for each, cut, found in rescore_all(translator, given, lenpen)
    ]
