"""Shallow-deep decoding (Wu et al. 2019): rerank both models' n-best lists by the mean of their scores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from lamina.errors import DataError
from lamina.recipe.decode import SearchSettings
from lamina.search.hypothesis import Hypothesis
from lamina.translation.batches import is_blank
from lamina.translation.loading import other_vocabulary
from lamina.translation.result import Translation
from lamina.translation.translator import WINDOW, Translator


class ShallowDeep:
    """Decodes with a grown model and the shallow model it was grown from."""

    def __init__(self, deep: Translator, shallow: Translator) -> None:
        if other_vocabulary(deep.text, shallow.text):
            raise DataError(
                "The shallow and the deep model have different vocabularies; the deep model must have been grown from "
                "the shallow one."
            )
        self.deep, self.shallow = deep, shallow

    def stream(self, lines: Iterable[str], settings: SearchSettings, nbest: int = 1) -> Iterator[Translation]:
        """Yield translations in order; scores are means of both models' length-normalised scores."""
        settings, lines = settings.with_options(beam=max(nbest, settings.beam)), iter(lines)
        while chunk := list(islice(lines, WINDOW)):
            sources, cuts = self.deep.encode(chunk)
            nonblank = [source for source in sources if not is_blank(source)]
            ranked = iter(self.rank(nonblank, settings))
            for source, cut in zip(sources, cuts, strict=True):
                if is_blank(source):
                    yield Translation("")
                else:
                    yield self.deep.to_translation(next(ranked), nbest, cut)

    def rank(self, sources: list[list[int]], settings: SearchSettings) -> list[list[Hypothesis]]:
        """Merge both models' hypotheses per source and sort them by mean score."""
        lists = [each.search_ids(sources, settings) for each in (self.deep, self.shallow)]
        merged = [
            list({tuple(each.tokens): each.tokens for hypotheses in both for each in hypotheses}.values())
            for both in zip(*lists, strict=True)
        ]
        flat_sources = [source for source, targets in zip(sources, merged, strict=True) for _ in targets]
        flat_targets = [target for targets in merged for target in targets]
        scored = [each.rescore(flat_sources, flat_targets, settings.lenpen) for each in (self.deep, self.shallow)]
        means = iter(
            Hypothesis(one.tokens, (one.log_prob + other.log_prob) / 2, (one.score + other.score) / 2)
            for one, other in zip(*scored, strict=True)
        )
        rescored = [list(islice(means, len(targets))) for targets in merged]
        return [sorted(each, key=lambda hypothesis: -hypothesis.score) for each in rescored]
