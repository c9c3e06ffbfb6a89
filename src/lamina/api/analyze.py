"""`lamina.analyze`: figures from runs, such as those of Wei et al. (2020) and Liu et al. (2021), each as a `Finding`.

A finding has `pictures`, a table (`head` and `rows`) and `data`. Notebooks display it, and `write(folder)` writes it as
an HTML page with its figures and numbers. A run is a path or a `Run`; functions that compare runs also take a list.
The other arguments are the options of the subcommands of `lamina analyze`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from lamina.analysis.finding import Finding
    from lamina.base.files import StrPath
    from lamina.scoring.evaluation import TestSet

    Runs = StrPath | Sequence[StrPath]

__all__ = ["attention", "degradation", "difficulty", "embeddings", "gradients", "layers", "masking", "report"]


def gradients(runs: Runs) -> Finding:
    """Gradient norm of every encoder layer over training (Wei et al. 2020, Figure 5).

    Example:
        >>> finding = lamina.analyze.gradients("runs/first")
        >>> finding.head
        ('run', 'layer', 'first', 'median', 'last')
    """
    from lamina.analysis.gradients import analyze_gradients

    return analyze_gradients(_paths(runs))


def attention(run: StrPath, source: str, target: str | None = None, *, checkpoint: str | int = "best") -> Finding:
    """Attention maps: every layer, the top layer's heads, both streams of MSC, the surface reader.

    Without `target`, the model's own translation is used.

    Example:
        >>> finding = lamina.analyze.attention("runs/first", "A dog runs.", target="Ein Hund rennt.")
        >>> [picture.name for picture in finding.pictures]
        ['layer2', 'layer2-head1', 'layer2-head2', 'layer1', 'surface']
    """
    from lamina.analysis.attention import analyze_attention
    from lamina.base.arguments import reject

    for name, text in (("source", source), ("target", target)):
        if not isinstance(text, str | None):
            reject(name, "one sentence", text)
    return analyze_attention(_paths(run)[0], source, target, checkpoint)


def layers(
    run: StrPath, test: TestSet | None = None, *, sentences: int = 200, checkpoint: str | int = "best"
) -> Finding:
    """Learned layer weights and gates (Liu et al. 2021, Figure 1).

    Layer weights belong to the bridges `transparent` and `fine_grained` and to DLCL, gates to MSC and to SurfaceFusion
    with a learned gate. Gates depend on the input: they need `test`, and are averaged over its first `sentences` pairs.

    Example:
        >>> finding = lamina.analyze.layers("runs/second")
        >>> finding.rows[0][:3]
        ('mixing', '1', 'embedding')
    """
    from lamina.analysis.layers import analyze_layers
    from lamina.base.arguments import check_counts

    check_counts(sentences=sentences)
    pairs = [] if test is None else list(zip(*_read(test, run), strict=True))[:sentences]
    return analyze_layers(_paths(run)[0], pairs, checkpoint)


def masking(run: StrPath, test: TestSet, *, checkpoint: str | int = "best") -> Finding:
    """Effect of masking each encoder layer in turn on BLEU and output length (Liu et al. 2021, Figure 2).

    It needs a bridge that mixes layers, `transparent` or `fine_grained`.

    Example:
        >>> finding = lamina.analyze.masking("runs/second", ("test.en", "test.de"))
        >>> [row[0] for row in finding.rows]
        ['none', 'embedding', '1', '2']
    """
    from lamina.analysis.masking import analyze_masking

    return analyze_masking(_paths(run)[0], *_read(test, run), checkpoint)


def embeddings(runs: Runs, pairs: TestSet, *, dictionary: bool = False) -> Finding:
    """Cosine similarity of aligned source and target embeddings, and the spectrum of the target matrix.

    With `dictionary`, each pair is a word and its translation; otherwise sentences are aligned by attention.

    Example:
        >>> finding = lamina.analyze.embeddings(["runs/first", "runs/second"], ("valid.en", "valid.de"))
        >>> [row[0] for row in finding.rows]
        ['first', 'second']
    """
    from lamina.analysis.embeddings import analyze_embeddings

    return analyze_embeddings(_paths(runs), list(zip(*_read(pairs, runs), strict=True)), dictionary=dictionary)


def difficulty(runs: Runs, test: TestSet, *, checkpoints: int = 5) -> Finding:
    """BLEU from simple to challenging sentences (Wei et al. 2020, Eqs. 14–15, Figure 3).

    The first run's last checkpoints define how difficult a sentence is; `checkpoints` is their number.

    Example:
        >>> finding = lamina.analyze.difficulty("runs/first", ("test.en", "test.de"), checkpoints=2)
        >>> [row[1] for row in finding.rows]
        ['simple', 'ordinary', 'difficult', 'challenging']
    """
    from lamina.analysis.difficulty import analyze_difficulty
    from lamina.base.arguments import check_counts

    check_counts(checkpoints=checkpoints)
    return analyze_difficulty(_paths(runs), checkpoints, *_read(test, runs))[0]


def degradation(runs: Runs, data: StrPath, *, sentences: int = 500, seed: int = 1) -> Finding:
    """BLEU and loss on training and validation pairs by depth (Wei et al. 2020, Figure 2).

    Example:
        >>> finding = lamina.analyze.degradation(["runs/first", "runs/second"], "data", sentences=5)
        >>> [row[3] for row in finding.rows]
        ['train', 'valid', 'train', 'valid']
    """
    from lamina.analysis.degradation import analyze_degradation
    from lamina.base.arguments import check_counts, check_path

    check_path("data", data, "the data folder that the runs were trained on")
    check_counts(sentences=sentences)
    check_counts(0, seed=seed)
    return analyze_degradation(_paths(runs), _paths(data)[0], sentences, seed)


def report(runs: Runs, test: TestSet | None = None, *, out: StrPath | None = None) -> Path:
    """Write one page with everything that applies: curves, scores, figures, examples, recipes.

    The page is written to `out`, or to `report.html` in the first run. Returns its path.

    Example:
        >>> lamina.analyze.report("runs/first", ("test.en", "test.de"), out="report.html")
        PosixPath('report.html')
    """
    from pathlib import Path

    from lamina.analysis.report import write_report
    from lamina.errors import UsageError

    paths = _paths(runs)
    path = paths[0] / "report.html" if out is None else Path(out)
    if path.is_dir():
        raise UsageError(f"{path}: is a folder; give the name of a file, such as report.html.")
    write_report(path, paths, None if test is None else _read(test, runs))
    return path


def _paths(runs: Runs) -> list[Path]:
    from pathlib import Path

    from lamina.base.arguments import as_list, check_path
    from lamina.errors import UsageError

    given = as_list(runs)
    if not given:
        raise UsageError("No run was given.")
    for run in given:
        check_path("run", run, "the path of a run, or a Run")
    return [Path(run) for run in given]


def _read(test: TestSet, runs: Runs) -> tuple[list[str], list[str]]:
    from lamina.corpus.sources import read_pairs
    from lamina.scoring.evaluation import languages_of

    return read_pairs(test, "test", languages_of(_paths(runs)[0]))


def __dir__() -> list[str]:
    return __all__
