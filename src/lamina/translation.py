"""Text in, text out: a trained model with its text pipeline."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

import torch
from torch import Tensor

from lamina.errors import DataError, UsageError
from lamina.model.seq2seq import Seq2Seq
from lamina.runs import load_run
from lamina.search.batches import Batch, BatchSearch, pad
from lamina.search.int8 import quantise, step_ratio
from lamina.search.products import prepare_for_decoding
from lamina.search.sampling import SamplingSettings
from lamina.search.settings import Hypothesis, SearchSettings
from lamina.search.workers import CoreWorkers
from lamina.text.pipeline import TextPipeline
from lamina.text.vocabulary import PAD, UNK

BATCH_SENTENCES, BATCH_TOKENS = 32, 8192  # at most so many sentences, and so many padded source tokens
LONGEST = 1024  # source tokens; the rest of a longer line is not read
WINDOW = 2000  # lines that are sorted by length together


@dataclass(frozen=True)
class Translation:
    """One line's translation. `score` is log_prob / (length incl. eos)^lenpen; tokens end with eos."""

    text: str
    score: float = 0.0
    log_prob: float = 0.0
    tokens: list[str] = field(default_factory=list)
    nbest: list[Translation] = field(default_factory=list)  # with itself first, if more than one was asked for
    attention: Tensor | None = None  # (target tokens, source tokens), on request
    cut: int = 0  # source tokens that were not read because the line is too long


class Translator:
    """One model, or several of the same vocabulary that write together."""

    def __init__(self, models: Sequence[Seq2Seq], text: TextPipeline, *, in_processes: bool = False) -> None:
        self.models, self.text = list(models), text
        self.notes: list[str] = []  # what whoever loaded it should know
        self.search = BatchSearch(self.models)
        self.device = self.search.device
        self.in_processes = in_processes and self.device.type == "cpu"  # batches go to copies of this process
        self.workers: CoreWorkers[Batch, list[list[Hypothesis]]] = CoreWorkers(self.search)

    def translate(
        self,
        lines: Iterable[str],
        beam: int = 5,
        lenpen: float = 1.0,
        nbest: int = 1,
        prefixes: Sequence[str] | None = None,
        search: SearchSettings | None = None,
        sampling: SamplingSettings | None = None,
        attention: bool = False,
    ) -> list[Translation]:
        """Translations in the order of the lines; a blank line's is blank. `search` sets all there is to set."""
        settings = search or SearchSettings(beam=beam, lenpen=lenpen)
        return list(self.stream(lines, settings, nbest, prefixes, sampling, attention))

    def stream(
        self,
        lines: Iterable[str],
        settings: SearchSettings,
        nbest: int = 1,
        prefixes: Iterable[str] | None = None,
        sampling: SamplingSettings | None = None,
        attention: bool = False,
        window: int = WINDOW,
    ) -> Iterator[Translation]:
        """The same for any number of lines, in memory for `window` of them."""
        if nbest > settings.beam:
            raise UsageError(f"nbest must be at most the beam {settings.beam}, but is {nbest} instead.")
        lines, heads = iter(lines), None if prefixes is None else iter(prefixes)
        generator = torch.Generator(self.device).manual_seed(sampling.seed if sampling else 0)
        while chunk := list(islice(lines, window)):
            starts = None if heads is None else self._prefixes(list(islice(heads, len(chunk))), len(chunk))
            sources, cuts = self.encode(chunk)
            found = self._search_all(sources, settings, sampling, starts, generator)
            for source, cut, hypotheses in zip(sources, cuts, found, strict=True):
                if blank(source):
                    yield Translation("")
                    continue
                best = self._translation(hypotheses, nbest)
                weights = self._attention(source, hypotheses[0].tokens) if attention else None
                yield replace(best, cut=cut, attention=weights)

    def encode(self, lines: Sequence[str]) -> tuple[list[list[int]], list[int]]:
        """Ids of lines, each ending with eos, and how many of each line's are left out because it is too long."""
        whole = self.text.source.encode(lines)
        sources = [source if len(source) <= LONGEST else [*source[: LONGEST - 1], source[-1]] for source in whole]
        return sources, [len(all_of_it) - len(source) for all_of_it, source in zip(whole, sources, strict=True)]

    def translate_tokens(
        self,
        sources: Sequence[Sequence[str]],
        beam: int = 5,
        lenpen: float = 1.0,
        batch_sentences: int = BATCH_SENTENCES,
    ) -> list[Translation]:
        """Sources that are cut into subwords already, each ending with eos."""
        vocabulary = self.text.source.vocabulary
        ids = [[vocabulary.ids.get(symbol, UNK) for symbol in source] for source in sources]
        settings = SearchSettings(beam=beam, lenpen=lenpen)
        found = self._search_all(ids, settings, batch_sentences=batch_sentences)
        return [self._translation(hypotheses, 1) for hypotheses in found]

    def translate_ids(self, sources: Sequence[Sequence[int]], settings: SearchSettings) -> list[Hypothesis]:
        """The best hypothesis of each source, ids in and out."""
        return [each[0] for each in self._search_all(sources, settings)]

    def rescore(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], lenpen: float
    ) -> list[Hypothesis]:
        """What the model says of given targets, ids ending with eos."""
        results: dict[int, Hypothesis] = {}
        for batch in batches([len(source) + len(target) for source, target in zip(sources, targets, strict=True)]):
            source_BS = self._pad([sources[number] for number in batch])
            target_BT = self._pad([targets[number] for number in batch])
            start_B1 = torch.full((len(batch), 1), self.models[0].start_id, device=self.device)
            prefix_BT = torch.cat([start_B1, target_BT[:, :-1]], dim=1)
            with torch.inference_mode():
                each = torch.stack([-model(source_BS, prefix_BT, target_BT).nll_BT for model in self.models])
                chosen_BT = (each.logsumexp(dim=0) - math.log(len(each))).masked_fill(target_BT == PAD, 0.0)
            for number, log_prob in zip(batch, chosen_BT.sum(dim=1).tolist(), strict=True):
                tokens = list(targets[number])
                results[number] = Hypothesis(tokens, log_prob, log_prob / len(tokens) ** lenpen)
        return [results[number] for number in range(len(sources))]

    def _search_all(
        self,
        sources: Sequence[Sequence[int]],
        settings: SearchSettings,
        sampling: SamplingSettings | None = None,
        prefixes: Sequence[Sequence[int]] | None = None,
        generator: torch.Generator | None = None,
        batch_sentences: int = BATCH_SENTENCES,
    ) -> list[list[Hypothesis]]:
        results: list[list[Hypothesis]] = [[] for _ in sources]
        wanted = [number for number, source in enumerate(sources) if not blank(source)]
        each = [
            [wanted[place] for place in batch]
            for batch in batches([len(sources[number]) for number in wanted], batch_sentences)
        ]
        work = [
            Batch(
                [sources[number] for number in numbers],
                settings,
                None if prefixes is None else [prefixes[number] for number in numbers],
                sampling,
            )
            for numbers in each
        ]
        spread = self.in_processes and sampling is None  # draws follow each other
        done = self.workers.map(work) if spread else (self.workers.do(batch, generator) for batch in work)
        for numbers, found in zip(each, done, strict=True):
            for number, hypotheses in zip(numbers, found, strict=True):
                if not hypotheses:
                    raise DataError("The model's scores are not numbers; its weights are damaged.")
                results[number] = hypotheses
        return results

    def _translation(self, hypotheses: Sequence[Hypothesis], nbest: int) -> Translation:
        target = self.text.target
        each = [
            Translation(
                target.decode(hypothesis.tokens).replace("\n", " "),  # a line stays a line, whatever is written
                hypothesis.score,
                hypothesis.log_prob,
                [target.vocabulary.symbols[token] for token in hypothesis.tokens],
            )
            for hypothesis in hypotheses[:nbest]
        ]
        return replace(each[0], nbest=each) if nbest > 1 else each[0]

    def _attention(self, source: Sequence[int], tokens: Sequence[int]) -> Tensor:
        """The first model's cross-attention, averaged over heads and streams of its last layer."""
        model = self.models[0]
        prefix = [model.start_id, *tokens[:-1]]
        with torch.inference_mode():
            layers = model.attention(self._pad([source]), self._pad([prefix]))
        return torch.stack(layers[-1]).mean(dim=(0, 2))[0].cpu()

    def _prefixes(self, lines: Sequence[str], wanted: int) -> list[list[int]]:
        if len(lines) < wanted:
            raise DataError("There are fewer prefixes than lines to translate.")
        return [ids[:-1] for ids in self.text.target.encode(lines)]

    def _pad(self, rows: Sequence[Sequence[int]]) -> Tensor:
        return pad(rows, self.device)


def blank(source: Sequence[int]) -> bool:
    """Whether there is nothing to translate before eos."""
    return len(source) <= 1


def batches(lengths: Sequence[int], sentences: int = BATCH_SENTENCES) -> Iterator[list[int]]:
    """Numbers of sentences of like length, the longest first, so many at a time."""
    order = sorted(range(len(lengths)), key=lambda number: -lengths[number])
    start = 0
    while start < len(order):
        size = max(1, min(sentences, BATCH_TOKENS // max(1, lengths[order[start]])))
        yield order[start : start + size]
        start += size


def load(
    run: str | os.PathLike[str],
    *others: str | os.PathLike[str],
    checkpoint: str | int = "best",
    device: str = "auto",
    threads: int | None = None,
    int8: bool = False,
) -> Translator:
    """A translator from a run, a checkpoint or a model folder; from several, an ensemble."""
    from lamina.training.allocator import keep_pages
    from lamina.training.distributed import choose_device

    keep_pages()  # a step's logits would be new pages every time
    if threads is not None:
        torch.set_num_threads(threads)
    place = choose_device(device)
    loaded = [load_run(Path(each), checkpoint) for each in (run, *others)]
    text = loaded[0].text
    for other, each in zip(others, loaded[1:], strict=True):
        if other_vocabulary(text, each.text):
            raise DataError(f"{other}: its vocabulary is not that of {run}; an ensemble needs one vocabulary.")
    models = [prepare_for_decoding(each.model.to(place)) for each in loaded]
    if not int8:
        return Translator(models, text, in_processes=True)
    translator = Translator([quantise(model) for model in models], text, in_processes=True)
    ratio = step_ratio(models[0], translator.models[0])
    if ratio > 1:
        translator.notes.append(f"a step in 8 bits takes {ratio:.2f} of the time in 32 here; leave --int8 out.")
    return translator


def other_vocabulary(one: TextPipeline, other: TextPipeline) -> bool:
    """Whether two pipelines number their subwords differently."""
    return one.source.vocabulary != other.source.vocabulary or one.target.vocabulary != other.target.vocabulary
