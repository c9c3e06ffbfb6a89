"""Shallow-deep decoding (Wu et al. 2019): the best of both models' n-best lists, by the mean of both scores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from lamina.errors import DataError
from lamina.recipe.decode import SearchSettings
from lamina.search.hypothesis import Hypothesis
from lamina.translation.loading import other_vocabulary
from lamina.translation.result import Translation
from lamina.translation.translator import WINDOW, Translator, is_blank


class ShallowDeep:
    """A model, and the one that it was grown from."""

    def __init__(self, deep: Translator, shallow: Translator) -> None:
        if other_vocabulary(deep.text, shallow.text):
            raise DataError("The shallow and the deep model have different vocabularies.")
        self.deep, self.shallow = deep, shallow

    def stream(self, lines: Iterable[str], settings: SearchSettings, nbest: int = 1) -> Iterator[Translation]:
        """Translations in order; a score is the mean of both models' length-normalised ones."""
        lines = iter(lines)
        while chunk := list(islice(lines, WINDOW)):
            sources, cuts = self.deep.encode(chunk)
            wanted = [source for source in sources if not is_blank(source)]
            ranked = iter(self.rank(wanted, settings))
            for source, cut in zip(sources, cuts, strict=True):
                if is_blank(source):
                    yield Translation("")
                else:
                    yield self.deep.to_translation(next(ranked), nbest, cut)

    def rank(self, sources: list[list[int]], settings: SearchSettings) -> list[list[Hypothesis]]:
        """Every source's hypotheses of either model, best first by both."""
        lists = [each.search_ids(sources, settings) for each in (self.deep, self.shallow)]
        joined = [
            list({tuple(found.tokens): found.tokens for own in both for found in own}.values())
            for both in zip(*lists, strict=True)
        ]
        flat_sources = [source for source, targets in zip(sources, joined, strict=True) for _ in targets]
        flat_targets = [target for targets in joined for target in targets]
        scored = [each.rescore(flat_sources, flat_targets, settings.lenpen) for each in (self.deep, self.shallow)]
        means = iter(
            Hypothesis(one.tokens, (one.log_prob + other.log_prob) / 2, (one.score + other.score) / 2)
            for one, other in zip(*scored, strict=True)
        )
        found = [list(islice(means, len(targets))) for targets in joined]
        return [sorted(each, key=lambda hypothesis: -hypothesis.score) for each in found]
