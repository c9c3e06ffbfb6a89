"""A lowered model for decoding on a CPU: packed weights shared by all threads, and one workspace per search."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lamina.engine.compilation import entry_points
from lamina.engine.encoded import EncodedSources
from lamina.engine.machine import FIELDS
from lamina.engine.program import Field, LoweredModel, Weight
from lamina.engine.restriction import restrict
from lamina.engine.search import LENGTH, LIMIT, PREFIX_LENGTH, WRITTEN, Found, Layout, Options, Sources
from lamina.engine.tuning import ENCODER_ROWS
from lamina.engine.workspace import Workspace
from lamina.errors import UsageError
from lamina.recipe.decode import SearchSettings
from lamina.search.hypothesis import Hypothesis
from lamina.text.vocabulary import PAD

Int64 = NDArray[np.int64]
Floats = NDArray[np.float32]

SPLIT_MEMORY, MAX_MEMORY = 2**30, 2**34  # bytes of caches above which a batch is split, and a source is refused


class TeacherForced(NamedTuple):
    """The result of forced decoding."""

    log_probs: Floats  # (B, T, V)
    recorded: list[Floats]  # for each recorded instruction: (B, T, heads, keys)


class Engine:
    """A program of one model or an ensemble; thread-safe."""

    def __init__(self, lowered: LoweredModel, weights: Floats) -> None:
        self.lowered, self.weights = lowered, weights
        self.start_id = lowered.start_id
        self.source_vocabulary, self.vocabulary = lowered.source_vocabulary, lowered.target_vocabulary
        self.functions = entry_points()
        self.machine = self.functions.machine
        program = lowered.program
        self.codes = {name: self._place(getattr(program, name)) for name in ("encoder", "decoder")}
        self._idle: list[Workspace] = []

    def search(
        self,
        sources: Sequence[Sequence[int]],
        settings: SearchSettings,
        prefixes: Sequence[Sequence[int]] | None = None,
        stop: Int64 | None = None,
        words: Int64 | None = None,
    ) -> list[list[Hypothesis]]:
        """The finished hypotheses of every source, best first; setting a source's `stop` to 1 aborts it.

        A batch that would need much memory is searched in parts, with the same results. `words` is a shortlist: the
        ascending ids of the target vocabulary to which outputs are restricted.
        """
        if words is not None and prefixes is not None:
            prefixes = [np.searchsorted(words, np.array(prefix, np.int64)).tolist() for prefix in prefixes]
        batch = self.pack_sources(sources, settings, prefixes, stop)
        found = self._search(batch, sources, settings, prefixes, words)
        return found if words is None else [rename_tokens(hypotheses, words) for hypotheses in found]

    def _search(
        self,
        batch: Sources,
        sources: Sequence[Sequence[int]],
        settings: SearchSettings,
        prefixes: Sequence[Sequence[int]] | None,
        words: Int64 | None,
    ) -> list[list[Hypothesis]]:
        """Search; with a shortlist, prefixes and results are indices into it."""
        max_tokens = int(batch.table[[LIMIT, PREFIX_LENGTH]].max(initial=0)) + 1
        count, beam = len(sources), settings.beam
        if count > 1 and self._cache_bytes(count * beam * max_tokens) > SPLIT_MEMORY:
            results = []
            for part in (slice(0, count // 2), slice(count // 2, None)):
                forced = None if prefixes is None else prefixes[part]
                half = self.pack_sources(sources[part], settings, forced, batch.stop[part])
                results += self._search(half, sources[part], settings, forced, words)
            return results
        if (size := self._cache_bytes(count * beam * max_tokens)) > MAX_MEMORY:
            memory = f"{size / 2**30:,.0f} GiB"
            raise UsageError(f"Outputs this long would need {memory} of memory; lower the beam or the maximum length.")
        found = Found(
            np.zeros((count, beam, max_tokens), np.int32),
            np.zeros((count, beam), np.int64),
            np.zeros((count, beam), np.float32),
            np.zeros((count, settings.diverse_groups), np.int64),
        )
        options = Options(
            beam, settings.diverse_groups, float(settings.diversity), settings.min_length, settings.no_repeat_ngram
        )
        with self.workspace() as space:
            layout = self.fit(space, batch, count * beam, max_tokens)
            self.encode(space, batch)
            code = self.codes["decoder"]
            if words is not None:
                restriction = restrict(self, words)
                code, layout = restriction.code, layout._replace(score_bytes=restriction.score_bytes)
            self.functions.decode(self.machine, code, space.registers, batch, layout, options, space.rows(), found)
        return [read_hypotheses(found, source, settings) for source in range(count)]

    def encode_sources(self, sources: Sequence[Sequence[int]]) -> EncodedSources:
        """Encode sources for decoding step by step."""
        batch = self.pack_sources(sources, SearchSettings(), None, None)
        encoded = EncodedSources(self, batch)
        if sources:
            self.fit(encoded.space, batch, 0, 0)
            self.encode(encoded.space, batch)
        return encoded

    def teacher_forced(
        self, sources: Sequence[Sequence[int]], prefixes: Sequence[Sequence[int]], records: Sequence[int] = ()
    ) -> TeacherForced:
        """Decode one given prefix (with the start token) per source, all positions at once."""
        length = max(map(len, prefixes))
        encoded, count = self.encode_sources(sources), len(sources) * length
        cache_rows = encoded.reserve(count)
        tokens = np.array([[*prefix, *[PAD] * (length - len(prefix))] for prefix in prefixes], np.int64).reshape(-1)
        check_ids("prefix", tokens, self.vocabulary)
        recorded = encoded.run(
            tokens,
            np.tile(np.arange(length), len(sources)),
            cache_rows,
            np.arange(len(sources)).repeat(length),
            cache_rows.reshape(len(sources), length).repeat(length, axis=0),
            records,
        )
        scores, normaliser = encoded.distribution(count)
        log_probs = (scores - normaliser).reshape(len(sources), length, -1)
        return TeacherForced(log_probs, [each.reshape(len(sources), length, *each.shape[1:]) for each in recorded])

    def attention(self, source: Sequence[int], prefix: Sequence[int]) -> list[tuple[Floats, ...]]:
        """The cross-attention weights of every decoder layer for each memory stream, (heads, prefix, source)."""
        readers = self.lowered.readers
        recorded = iter(self.teacher_forced([source], [prefix], [each for layer in readers for each in layer]).recorded)
        heads, length = self.lowered.heads, len(source)
        return [tuple(next(recorded)[0, :, :heads, :length].swapaxes(0, 1) for _ in layer) for layer in readers]

    def pack_sources(
        self,
        sources: Sequence[Sequence[int]],
        settings: SearchSettings,
        prefixes: Sequence[Sequence[int]] | None,
        stop: Int64 | None,
    ) -> Sources:
        """Validate sources and prefixes and concatenate them for compiled code, which does not check them."""
        tokens, first, length = join(sources)
        prefix, prefix_first, prefix_length = join(prefixes if prefixes is not None else [()] * len(sources))
        if len(length) and length.min() == 0:
            raise UsageError("A source must have at least one token.")
        check_ids("source", tokens, self.source_vocabulary)
        check_ids("prefix", prefix, self.vocabulary)
        limits = np.array([settings.limit(size) for size in length.tolist()], np.int64)
        flags = np.zeros(len(sources), np.int64) if stop is None else stop
        return Sources(tokens, prefix, np.stack([first, length, limits, prefix_first, prefix_length]), flags)

    def encode(self, space: Workspace, batch: Sources) -> None:
        code, rows = self.codes["encoder"], space.rows()
        self.functions.encode(self.machine, code, space.registers, space.kinds, batch, rows, ENCODER_ROWS)

    def new_workspace(self) -> Workspace:
        return Workspace(self.lowered.program, self.weights, self.codes)

    def fit(self, space: Workspace, batch: Sources, rows: int, max_tokens: int) -> Layout:
        """Grow a workspace to fit a batch, and return the layout for compiled code."""
        tokens, longest, lists = len(batch.tokens), int(batch.table[LENGTH].max(initial=1)), rows * max_tokens
        both = tokens + 2 * lists if self.lowered.reads_both else 0
        encoder_rows = min(tokens, max(ENCODER_ROWS, longest))
        numbers = tokens + max(tokens, 2 * lists + (lists + rows * longest if both else 0))  # or ends of sentences
        positions = max(longest, max_tokens)
        space.fit(max(rows, encoder_rows), tokens, tokens + lists, longest + max_tokens, positions, numbers)
        space.numbers[:tokens] = np.arange(tokens)
        scores, normaliser = self.lowered.distribution
        score_bytes = 4 * self.lowered.program.widths[scores]
        return Layout(scores, normaliser, score_bytes, self.start_id, tokens, both)

    @contextmanager
    def workspace(self) -> Iterator[Workspace]:
        """Borrow a workspace for exclusive use."""
        try:
            space = self._idle.pop()
        except IndexError:
            space = self.new_workspace()
        yield space
        self._idle.append(space)  # not reached after an error: its content may be inconsistent

    def _cache_bytes(self, written: int) -> int:
        """Bytes of caches for this number of written positions."""
        program = self.lowered.program
        widths = [width for width, kind in zip(program.widths, program.kinds, strict=True) if kind == WRITTEN]
        return 4 * sum(widths) * written

    def _place(self, instructions: Sequence[tuple[Field, ...]]) -> Int64:
        """Encode instructions as integers, with addresses instead of offsets into the weights."""
        base = self.weights.ctypes.data
        code = np.zeros((len(instructions), FIELDS), np.int64)
        for number, fields in enumerate(instructions):
            code[number, : len(fields)] = [
                base + 4 * each.offset if isinstance(each, Weight) else each for each in fields
            ]
        return code

    def __reduce__(self) -> Any:
        raise TypeError("An Engine holds memory addresses and cannot be pickled; create one in each process.")


def check_ids(name: str, tokens: Int64, vocabulary: int) -> None:
    """Raise unless all ids are in the vocabulary; compiled code does not check them."""
    if len(tokens) and not 0 <= tokens.min() <= tokens.max() < vocabulary:
        wrong = next(token for token in tokens.tolist() if not 0 <= token < vocabulary)
        raise UsageError(f"The {name} has token id {wrong}, but the vocabulary has {vocabulary:,} entries.")


def join(rows: Sequence[Sequence[int]]) -> tuple[Int64, Int64, Int64]:
    """Concatenate rows; return the tokens, and the start and length of each row."""
    length = np.array([len(row) for row in rows], np.int64)
    first = np.zeros(len(rows), np.int64)
    np.cumsum(length[:-1], out=first[1:])
    flat = [token for row in rows for token in row]
    return np.array(flat, np.int64), first, length


def rename_tokens(hypotheses: Sequence[Hypothesis], words: Int64) -> list[Hypothesis]:
    """Map indices into a shortlist back to ids of the vocabulary."""
    return [Hypothesis(words[each.tokens].tolist(), each.log_prob, each.score) for each in hypotheses]


def read_hypotheses(found: Found, source: int, settings: SearchSettings) -> list[Hypothesis]:
    """The hypotheses of one source, best first."""
    hypotheses, width = [], settings.beam // settings.diverse_groups
    for group, count in enumerate(found.ended[source].tolist()):
        for number in range(group * width, group * width + count):
            length, log_prob = int(found.length[source, number]), float(found.sums[source, number])
            tokens = found.tokens[source, number, :length].tolist()
            hypotheses.append(Hypothesis(tokens, log_prob, log_prob / length**settings.lenpen))
    return sorted(hypotheses, key=lambda hypothesis: -hypothesis.score)
