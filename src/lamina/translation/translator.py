"""Text in, text out: a trained model with its text pipeline."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Unpack, overload

from lamina.base.arguments import check_counts
from lamina.errors import DataError, UsageError
from lamina.figures.tables import html_facts
from lamina.recipe.decode import SearchSettings
from lamina.recipe.options import SearchOptions
from lamina.search.hypothesis import Hypothesis
from lamina.search.shortlist import Shortlist
from lamina.text.pipeline import TextPipeline
from lamina.text.vocabulary import EOS, PAD, UNK
from lamina.translation.backends import Backend, SourceBatch, choose_backend
from lamina.translation.batches import BATCH_SENTENCES, cut_batches, is_blank
from lamina.translation.result import Translation

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from lamina.model.seq2seq import Seq2Seq
    from lamina.search.sampling import SamplingSettings

LONGEST = 1024  # source tokens; longer lines are truncated
WINDOW = 2000  # lines sorted by length at a time


class Translator:
    """One model, or an ensemble of models with the same vocabulary.

    Example:
        >>> translator = lamina.load("runs/first")
        >>> translator
        Translator(en → de, stack × top × surface, 21,296 parameters, cpu)
    """

    def __init__(
        self,
        models: Sequence[Seq2Seq],
        text: TextPipeline,
        settings: SearchSettings | None = None,
        *,
        int8: bool = False,
        shortlist: Shortlist | None = None,
        backend: Backend | None = None,
        load_models: Callable[[], list[Seq2Seq]] | None = None,
    ) -> None:
        """`load_models` loads the torch models lazily, for a backend that does not need them."""
        self._models, self._load_models, self.text = list(models), load_models, text
        self.settings = settings or SearchSettings()  # defaults of each call
        self.notes: list[str] = []  # for the user
        if backend is None:
            backend, self.notes = choose_backend(self._models, int8, shortlist)
        self.backend = backend

    @property
    def models(self) -> list[Seq2Seq]:
        """The torch models; an ONNX export has none."""
        if not self._models and self._load_models is not None:
            self._models = self._load_models()
        if not self._models:
            raise UsageError("An ONNX export can only translate; use the run or model folder that was exported.")
        return self._models

    @property
    def device(self) -> torch.device:
        """The device that the models are on."""
        import torch

        return self._models[0].head.weight_VD.device if self._models else torch.device("cpu")

    def facts(self) -> list[tuple[str, str]]:
        """Names and values for `repr`."""
        text = self.text
        known = [("languages", f"{text.source.language} → {text.target.language}")]
        if self._models or self._load_models is not None:
            config, count = self.models[0].config, len(self.models)
            parts = f"{config.encoder.type} × {config.bridge.type} × {config.head.type}"
            parameters = sum(weight.numel() for model in self.models for weight in model.parameters())
            known.append(("model", parts if count == 1 else f"{count} models, the first {parts}"))
            known.append(("parameters", f"{parameters:,} parameters"))
        return [*known, ("device", str(self.device))]

    def __repr__(self) -> str:
        return f"Translator({', '.join(value for _, value in self.facts())})"

    def _repr_html_(self) -> str:
        search = ", ".join(f"{name} {value}" for name, value in self.settings.model_dump().items())
        return html_facts("Translator", [*self.facts(), ("search", search)])

    @overload
    def translate(  # type: ignore[overload-overlap]
        self,
        lines: str,
        nbest: int = 1,
        prefixes: str | Sequence[str] | None = None,
        sampling: SamplingSettings | None = None,
        attention: bool = False,
        **search: Unpack[SearchOptions],
    ) -> Translation: ...

    @overload
    def translate(
        self,
        lines: Iterable[str],
        nbest: int = 1,
        prefixes: str | Sequence[str] | None = None,
        sampling: SamplingSettings | None = None,
        attention: bool = False,
        **search: Unpack[SearchOptions],
    ) -> list[Translation]: ...

    def translate(
        self,
        lines: str | Iterable[str],
        nbest: int = 1,
        prefixes: str | Sequence[str] | None = None,
        sampling: SamplingSettings | None = None,
        attention: bool = False,
        **search: Unpack[SearchOptions],
    ) -> Translation | list[Translation]:
        """Translate one text, or several in order; blank texts stay blank.

        With `nbest`, each translation has this many alternatives, and the beam is at least as large. Translations start
        with `prefixes`, one per text. `sampling` (`lamina.SamplingSettings`) replaces beam search. `search` takes the
        keys of `lamina.SearchOptions`, such as `beam`; the defaults are the run's. With `attention`, each translation
        records what its tokens attended to (`plot_attention`); its alternatives in `nbest` do not.

        Example:
            >>> translator = lamina.load("runs/first")
            >>> translator.translate("A dog runs.", beam=2)
            Translation('...', score=-...)
            >>> len(translator.translate(["A dog runs.", "Two cats sleep."]))
            2
        """
        one = isinstance(lines, str)
        if not isinstance(lines, Iterable):
            raise UsageError(f"Give a text, or several texts; {lines!r} is neither.")
        if isinstance(prefixes, str):
            prefixes = [prefixes]
        texts = [lines] if isinstance(lines, str) else lines
        found = list(self.stream(texts, None, nbest, prefixes, sampling, attention, **search))
        return found[0] if one else found

    def stream(
        self,
        lines: Iterable[str],
        settings: SearchSettings | None = None,
        nbest: int = 1,
        prefixes: Iterable[str] | None = None,
        sampling: SamplingSettings | None = None,
        attention: bool = False,
        window: int = WINDOW,
        **search: Unpack[SearchOptions],
    ) -> Iterator[Translation]:
        """Translate any number of lines, with `window` of them in memory; the other arguments are as in `translate`.

        `settings` replaces the run's search settings.
        """
        if isinstance(lines, str):
            raise UsageError("One text must be given as [text].")
        if settings is not None and not isinstance(settings, SearchSettings):
            raise UsageError(f"settings must be SearchSettings, but is {settings!r} instead; give options by name.")
        for name in search.keys() - SearchOptions.__annotations__:
            from lamina.search.sampling import SamplingSettings

            if name in SamplingSettings.__annotations__:
                raise UsageError(f"{name}: belongs to sampling: sampling=lamina.SamplingSettings({name}=…).")
        settings = (settings or self.settings).with_options(**search)
        if sampling is not None and not hasattr(sampling, "temperature"):
            raise UsageError(f"sampling must be lamina.SamplingSettings, but is {sampling!r} instead.")
        if sampling is not None and prefixes is not None:
            raise UsageError("prefixes apply only to beam search; omit sampling.")
        check_counts(nbest=nbest, window=window)
        if sampling is None:
            settings = settings.with_options(beam=max(nbest, settings.beam))
        lines, prefix_lines = iter(lines), None if prefixes is None else iter(prefixes)
        draw = None if sampling is None else self._sampler(settings, sampling, nbest)
        while chunk := list(islice(lines, window)):
            starts = None if prefix_lines is None else self._prefixes(islice(prefix_lines, len(chunk)), len(chunk))
            sources, cuts = self.encode(chunk)
            found = self._search_all(sources, settings, starts) if draw is None else draw(sources)
            for source, cut, hypotheses in zip(sources, cuts, found, strict=True):
                if is_blank(source):
                    yield Translation("")
                    continue
                best = self._translation(hypotheses, nbest)
                weights = self._attention(source, hypotheses[0].tokens) if attention else None
                symbols = [self.text.source.vocabulary.symbols[token] for token in source]
                yield replace(best, cut=cut, attention=weights, source_tokens=symbols)
        if prefix_lines is not None and next(prefix_lines, None) is not None:
            raise DataError("There are more prefixes than lines to translate.")

    def encode(self, lines: Sequence[str]) -> tuple[list[list[int]], list[int]]:
        """Encode lines to ids, each ending with eos; also return how many tokens of each line were truncated."""
        encoded = self.text.source.encode(lines)
        longest = self.text.source.longest or LONGEST
        sources = [ids if len(ids) <= longest else [*ids[: longest - 1], ids[-1]] for ids in encoded]
        return sources, [len(ids) - len(source) for ids, source in zip(encoded, sources, strict=True)]

    def translate_tokens(
        self, sources: Sequence[Sequence[str]], batch_sentences: int = BATCH_SENTENCES, **search: Unpack[SearchOptions]
    ) -> list[Translation]:
        """Translate sources that are already split into subwords, each ending with eos."""
        vocabulary = self.text.source.vocabulary
        ids = [[vocabulary.ids.get(symbol, UNK) for symbol in source] for source in sources]
        settings = self.settings.with_options(**search)
        found = self._search_all(ids, settings, batch_sentences=batch_sentences)
        return [self._translation(hypotheses, 1) for hypotheses in found]

    def translate_ids(self, sources: Sequence[Sequence[int]]) -> list[Hypothesis]:
        """Translate ids to ids: the best hypothesis of each source."""
        empty = Hypothesis([EOS], 0.0, 0.0)  # of blank sources
        return [each[0] if each else empty for each in self._search_all(sources, self.settings)]

    def search_ids(self, sources: Sequence[Sequence[int]], settings: SearchSettings) -> list[list[Hypothesis]]:
        """Translate ids to ids: all finished hypotheses of each source."""
        return self._search_all(sources, settings)

    def to_translation(self, hypotheses: Sequence[Hypothesis], nbest: int, cut: int = 0) -> Translation:
        """Convert ranked hypotheses to a translation."""
        return replace(self._translation(hypotheses, nbest), cut=cut)

    def rescore(
        self,
        sources: Sequence[Sequence[int]],
        targets: Sequence[Sequence[int]],
        lenpen: float,
        normalised: bool = False,
    ) -> list[Hypothesis]:
        """Compute log p of given targets (ids ending with eos); `normalised` makes the probabilities sum to 1."""
        import torch

        from lamina.translation.torch_backend import pad_ids

        models, device = self.models, self.device
        results: dict[int, Hypothesis] = {}
        for batch in cut_batches([len(source) + len(target) for source, target in zip(sources, targets, strict=True)]):
            source_BS = pad_ids([sources[number] for number in batch], device)
            target_BT = pad_ids([targets[number] for number in batch], device)
            start_B1 = torch.full((len(batch), 1), models[0].start_id, device=device)
            prefix_BT = torch.cat([start_B1, target_BT[:, :-1]], dim=1)
            with torch.inference_mode():
                each = torch.stack(
                    [
                        -model.normalised_nll(source_BS, prefix_BT, target_BT)
                        if normalised
                        else -model(source_BS, prefix_BT, target_BT).nll_BT
                        for model in models
                    ]
                )
                chosen_BT = (each.logsumexp(dim=0) - math.log(len(each))).masked_fill(target_BT == PAD, 0.0)
            for number, log_prob in zip(batch, chosen_BT.sum(dim=1).tolist(), strict=True):
                tokens = list(targets[number])
                results[number] = Hypothesis(tokens, log_prob, log_prob / len(tokens) ** lenpen)
        return [results[number] for number in range(len(sources))]

    def _search_all(
        self,
        sources: Sequence[Sequence[int]],
        settings: SearchSettings,
        prefixes: Sequence[Sequence[int]] | None = None,
        batch_sentences: int = BATCH_SENTENCES,
    ) -> list[list[Hypothesis]]:
        batches = self._batches(sources, batch_sentences, self.backend.batches_at_once)
        work = [
            SourceBatch(
                [sources[number] for number in numbers],
                None if prefixes is None else [prefixes[number] for number in numbers],
            )
            for numbers in batches
        ]
        return _in_order(len(sources), batches, self.backend.search(work, settings), settings)

    def _sampler(
        self, settings: SearchSettings, sampling: SamplingSettings, samples: int
    ) -> Callable[[Sequence[Sequence[int]]], list[list[Hypothesis]]]:
        """Return a function that samples translations with one seeded generator."""
        import torch

        from lamina.search.sampling import Sampler

        generator = torch.Generator(self.device).manual_seed(sampling.seed)
        sampler = Sampler(settings, sampling, generator, samples)

        def draw(sources: Sequence[Sequence[int]]) -> list[list[Hypothesis]]:
            batches = self._batches(sources, BATCH_SENTENCES, 1)
            work = (SourceBatch([sources[number] for number in numbers]) for numbers in batches)
            drawn = (self.backend.sample(batch, sampler) for batch in work)
            return _in_order(len(sources), batches, drawn, settings)

        return draw

    def _batches(self, sources: Sequence[Sequence[int]], sentences: int, workers: int) -> list[list[int]]:
        nonblank = [number for number, source in enumerate(sources) if not is_blank(source)]
        lengths = [len(sources[number]) for number in nonblank]
        return [[nonblank[index] for index in batch] for batch in cut_batches(lengths, sentences, workers)]

    def _translation(self, hypotheses: Sequence[Hypothesis], nbest: int) -> Translation:
        target = self.text.target
        each = [
            Translation(
                target.decode(hypothesis.tokens).replace("\n", " "),  # one output line per input line
                hypothesis.score,
                hypothesis.log_prob,
                [target.vocabulary.symbols[token] for token in hypothesis.tokens],
            )
            for hypothesis in hypotheses[:nbest]
        ]
        return replace(each[0], nbest=each) if nbest > 1 else each[0]

    def _attention(self, source: Sequence[int], tokens: Sequence[int]) -> Tensor:
        """The first model's cross-attention, averaged over heads and streams of its last layer."""
        import torch

        return torch.stack(self.backend.attention(source, tokens)[-1]).mean(dim=(0, 1))

    def _prefixes(self, lines: Iterable[str], count: int) -> list[list[int]]:
        lines = list(lines)
        if len(lines) < count:
            raise DataError("There are fewer prefixes than lines to translate.")
        return [ids[:-1] for ids in self.text.target.encode(lines)]


def _in_order(
    count: int, batches: Iterable[Sequence[int]], done: Iterable[Sequence[list[Hypothesis]]], settings: SearchSettings
) -> list[list[Hypothesis]]:
    """Collect hypotheses by sentence number; sentences in no batch get an empty list."""
    results: list[list[Hypothesis]] = [[] for _ in range(count)]
    for numbers, found in zip(batches, done, strict=True):
        for number, hypotheses in zip(numbers, found, strict=True):
            if not hypotheses and settings.no_repeat_ngram:
                raise UsageError(
                    f"No output satisfies no_repeat_ngram {settings.no_repeat_ngram} and min_length "
                    f"{settings.min_length} together; relax one of them."
                )
            if not hypotheses:
                raise DataError("The model's scores are not finite; its weights are damaged.")
            results[number] = hypotheses
    return results
