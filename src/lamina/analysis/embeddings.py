"""Similarity of the embeddings of aligned words (Liu et al. 2021, analysis of embeddings)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from lamina.analysis.finding import Finding, Picture, label_runs
from lamina.errors import DataError, UsageError
from lamina.figures.axes import Axis
from lamina.figures.charts import Bars, Series, bar_chart, line_chart
from lamina.model.seq2seq import Seq2Seq
from lamina.store.loading import load_run
from lamina.store.model_folder import LoadedModel

RANDOM_PAIRS = 2000
READING = (
    "The cosine similarity between embeddings of aligned source and target words, compared with random pairs of the "
    "same words; and the singular values of the target embedding matrix, relative to the largest. Liu et al. (2021) "
    "claim that SurfaceFusion learns more expressive bilingual embeddings: a higher similarity of aligned pairs, and "
    "a spectrum that decays more slowly (more directions are used)."
)
Pair = tuple[int, int]


def analyze_embeddings(
    runs: Sequence[Path], pairs: Sequence[tuple[str, str]], *, dictionary: bool = False, least: int = 2, seed: int = 1
) -> Finding:
    """Compare runs; `pairs` are sentences to align by attention or, with `dictionary`, words."""
    names = label_runs(runs)
    rows, spectra = [], []
    for name, run in zip(names, runs, strict=True):
        loaded = load_run(run)
        model = loaded.model.eval()
        words = given_words(loaded, pairs) if dictionary else aligned_words(loaded, pairs, least)
        if len(words) < 2:
            raise DataError(
                f"{run}: needs at least two aligned word pairs in the vocabulary, but has {len(words)}; give more text."
            )
        close, far = cosines(model, words), cosines(model, shuffled(words, seed))
        rows.append((name, len(words), float(close.mean()), float(far.mean()), float(close.mean() - far.mean())))
        spectra.append(Series(name, list(enumerate(spectrum(model.target_embedding.tokens.weight), 1))))
    y = Axis.over("mean cosine", [value for row in rows for value in row[2:4]], zero=True)
    series = [Bars("aligned", [row[2] for row in rows]), Bars("random", [row[3] for row in rows])]
    gaps = ", ".join(f"{row[4]:.2f} ({row[0]})" for row in rows)
    bars = bar_chart(names, series, y, "run", f"Aligned words are closer than random ones by {gaps}")
    points = [point for each in spectra for point in each.points]
    x = Axis.over("rank of the singular value", [rank for rank, _ in points])
    falls = line_chart(
        spectra,
        x,
        Axis.over("relative to the largest", [value for _, value in points], log=True),
        title=f"Singular values of the target embeddings: {', '.join(names)}",
    )
    keys = ("run", "pairs", "aligned", "random", "difference")
    return Finding(
        "embeddings",
        "Bilingual embeddings",
        READING,
        [
            Picture("cosine", bars, "Cosine of source and target embeddings."),
            Picture("spectrum", falls, "Singular values of the target embedding matrix."),
        ],
        ("run", "pairs of words", "aligned", "random", "difference"),
        rows,
        {
            "cosine": [dict(zip(keys, row, strict=True)) for row in rows],
            "spectrum": {each.name: [value for _, value in each.points] for each in spectra},
        },
    )


def given_words(loaded: LoadedModel, pairs: Sequence[tuple[str, str]]) -> list[Pair]:
    """Token ids of word pairs in which each word is a single token."""
    encoded = zip(
        loaded.text.source.encode([source for source, _ in pairs]),
        loaded.text.target.encode([target for _, target in pairs]),
        strict=True,
    )
    return [(source[0], target[0]) for source, target in encoded if len(source) == len(target) == 2]


def aligned_words(loaded: LoadedModel, pairs: Sequence[tuple[str, str]], least: int) -> list[Pair]:
    """For each target token, the source token it is most often aligned with, if at least `least` times.

    Alignments are from the last decoder layer's attention, averaged over heads and streams.
    """
    sources = loaded.text.source.encode([source for source, _ in pairs])
    targets = loaded.text.target.encode([target for _, target in pairs])
    counts: Counter[Pair] = Counter()
    for source, target in zip(sources, targets, strict=True):
        prefix = torch.tensor([[loaded.model.start_id, *target[:-1]]])
        with torch.inference_mode():
            streams = loaded.model.attention(torch.tensor([source]), prefix)[-1]
        attention_TS = torch.stack(streams).mean(dim=(0, 2))[0, :-1, :-1]  # without eos
        if attention_TS.numel():
            counts.update(
                (source[s], token) for s, token in zip(attention_TS.argmax(dim=1).tolist(), target, strict=False)
            )
    best: dict[int, Pair] = {}
    for pair, count in counts.most_common():
        if count >= least:
            best.setdefault(pair[1], pair)
    return list(best.values())


def shuffled(words: Sequence[Pair], seed: int) -> list[Pair]:
    """Pair the same words at random."""
    draw = torch.Generator().manual_seed(seed)
    picks = torch.randint(len(words), (2, RANDOM_PAIRS), generator=draw).tolist()
    return [(words[a][0], words[b][1]) for a, b in zip(*picks, strict=True) if a != b]


def cosines(model: Seq2Seq, words: Sequence[Pair]) -> Tensor:
    """Cosine similarity of the source and target embeddings of each pair."""
    source, target = torch.tensor(list(words)).unbind(dim=1)
    embeddings = model.source_embedding.tokens.weight, model.target_embedding.tokens.weight
    if embeddings[0].shape[1] != embeddings[1].shape[1]:
        raise UsageError("Source and target embeddings have different sizes.")
    return F.cosine_similarity(embeddings[0][source], embeddings[1][target]).detach()


def spectrum(weight_VD: Tensor) -> list[float]:
    """Singular values of a matrix, relative to the largest."""
    values = torch.linalg.svdvals(weight_VD.detach().float())
    return (values / values[0]).tolist()
