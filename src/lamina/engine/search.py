"""Beam search of a whole batch in one compiled call, without the GIL.

Sources may have any length: nothing is padded. The rows (hypotheses) of a source are adjacent. Keys and values of
written positions never move; each row has a list of the cache rows of its prefix (`Rows.numbers`), and when search
reorders rows, only these lists are copied. `machine` is the address of `machine.execute`, which is compiled separately.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lamina.engine.machine import BOTH, COUNT, OWN, PLACE, POSITION, SOURCE, START, TOKEN, Rows
from lamina.engine.operations import HIDDEN, Floats, Int32, Int64, f32
from lamina.engine.products import compiled
from lamina.engine.vectors import BYTES, LANES, call_at, lanes_above, load, load_float, lowest_bit, splat, store_float
from lamina.search import rules
from lamina.text.vocabulary import BOS, EOS, PAD

forced_token = compiled(rules.forced_token)
repeated_tokens = compiled(rules.repeated_tokens)
split_candidates = compiled(rules.split_candidates)
ROW, SOURCE_TOKEN, WRITTEN, POSITION_VECTOR, FIXED = range(5)  # kinds of registers: what their rows stand for
IMPOSSIBLE: Any = f32(-1e29)  # sums below this contain a masked score
FIRST, LENGTH, LIMIT, PREFIX_FIRST, PREFIX_LENGTH = range(5)  # rows of `Sources.table`


class Sources(NamedTuple):
    """A batch of concatenated sources, and the constraints on their targets."""

    tokens: Int64
    prefix: Int64  # all forced prefixes, concatenated
    table: Int64  # per source: first token, length with eos, maximum tokens before eos, start and length of its prefix
    stop: Int64  # set to 1 during the search to abort this source


class Layout(NamedTuple):
    """The registers and cache layout of a program."""

    scores: int  # register of scores
    normaliser: int  # register of their normaliser
    score_bytes: int  # bytes of a row of scores
    start: int  # first token of targets
    source_rows: int  # cache rows of source tokens, before those of written positions
    both_lists: int  # start of the lists of view `BOTH` in `Rows.numbers`; 0 if no layer uses it


class Options(NamedTuple):
    """Search settings for compiled code."""

    beam: int
    groups: int
    diversity: float
    min_length: int
    no_repeat_ngram: int


class Found(NamedTuple):
    """The finished hypotheses of each source, in the order in which they ended."""

    tokens: Int32  # (source, hypothesis, position)
    length: Int64
    sums: Floats
    ended: Int64  # (source, group): number of hypotheses


READ, PARENT = 0, 1  # rows of `Beams.table`


class Beams(NamedTuple):
    """The rows of one step, adjacent for each active source."""

    table: Int64  # per row: the token to read next, and its parent row in the previous step
    totals: Floats  # sums of log p
    written: Int32  # tokens (row, position)
    past: int  # start of the prefix lists in `Rows.numbers`, one every `written.shape[1]` entries


OWNERS, TOKENS, ENDED, CONTINUING, BANNED, PENALISED = range(6)  # rows of `Scratch.table`


class Scratch(NamedTuple):
    """Buffers for choosing among the candidates of one source."""

    before: Floats  # added to each row's scores
    sums: Floats  # log p of the candidates, best first
    table: Int64  # candidates' rows and tokens; ranks that end and that continue; banned and penalised tokens


@compiled
def describe_sentences(tokens: Int64, first: int, begin: int, length: int, lists: int, rows: Rows) -> int:
    """Set each row's sentence (view SOURCE, its index in PLACE) and the last rows of all sentences of its document
    (view BOTH, a list in `Rows.numbers`); return the start of the next list.
    """
    sentence, count = begin, 0
    for r in range(begin, begin + length):
        if tokens[first + r] == BOS or r + 1 == begin + length:
            for member in range(sentence, r + 1):
                rows.table[START + SOURCE, member], rows.table[COUNT + SOURCE, member] = sentence, r + 1 - sentence
                rows.table[PLACE, member] = count
            rows.numbers[lists + count] = r
            sentence, count = r + 1, count + 1
    for r in range(begin, begin + length):
        rows.table[START + BOTH, r], rows.table[COUNT + BOTH, r] = lists, count
    return lists + count


@compiled
def encode(
    machine: int, program: Int64, registers: Int64, kinds: Int64, sources: Sources, rows: Rows, max_rows: int
) -> None:
    """Run the encoder over all sources, at most `max_rows` tokens or one source at a time."""
    local = np.zeros(registers.shape, np.int64)
    begin, count = 0, sources.table.shape[1]
    while begin < count:
        first, end, used = sources.table[FIRST, begin], begin, 0
        lists = len(sources.tokens)
        while end < count and (used == 0 or used + sources.table[LENGTH, end] <= max_rows):
            for s in range(sources.table[LENGTH, end]):
                r = used + s
                rows.table[TOKEN, r], rows.table[POSITION, r] = sources.tokens[first + r], s
                rows.table[START + OWN, r], rows.table[COUNT + OWN, r] = used, sources.table[LENGTH, end]
            lists = describe_sentences(sources.tokens, first, used, sources.table[LENGTH, end], lists, rows)
            used += sources.table[LENGTH, end]
            end += 1
        for i in range(len(registers)):
            by_token = kinds[i] == SOURCE_TOKEN or kinds[i] == WRITTEN
            local[i, 0] = registers[i, 0] + (first * registers[i, 1] if by_token else 0)
            local[i, 1] = registers[i, 1]
        call_at(machine, (program, local, used, rows))
        begin = end


@compiled
def insert(value: np.float32, owner: int, token: int, sums: Floats, owners: Int64, tokens: Int64) -> None:
    """Insert a candidate at its rank; ties keep their order."""
    rank = len(sums) - 1
    while rank > 0 and value > sums[rank - 1]:
        sums[rank], owners[rank], tokens[rank] = sums[rank - 1], owners[rank - 1], tokens[rank - 1]
        rank -= 1
    sums[rank], owners[rank], tokens[rank] = value, owner, token


@compiled
def best_candidates(
    scores: int, step: int, size: int, before: Floats, rows: int, sums: Floats, owners: Int64, tokens: Int64
) -> None:
    """The best continuations of a group's rows, best first; vectors without a lane above the threshold are skipped."""
    last = len(sums) - 1
    for w in range(rows):
        row = scores + w * step
        threshold = splat(max(sums[last], IMPOSSIBLE) - before[w])
        for k in range(0, size, 2 * BYTES):
            bits = lanes_above(load(row + k), threshold) | (lanes_above(load(row + k + BYTES), threshold) << LANES)
            while bits:
                token = k // 4 + lowest_bit(bits)
                bits &= bits - 1
                value = load_float(row + 4 * token) + before[w]
                if value > sums[last]:
                    insert(value, w, token, sums, owners, tokens)
                    threshold = splat(max(sums[last], IMPOSSIBLE) - before[w])


@compiled
def begin_step(
    position: int, per: int, active: Int64, alive: int, used: int, beams: Beams, sources: Sources, both: int, rows: Rows
) -> None:
    """Set the inputs of each row: its token, prefix and source, and lists of both from `both` on if that is not 0."""
    stride, table = beams.written.shape[1], rows.table
    for r in range(alive * per):
        slot, begin = active[r // per], beams.past + r * stride
        first, length = sources.table[FIRST, slot], sources.table[LENGTH, slot]
        table[TOKEN, r], table[POSITION, r], table[PLACE, r] = beams.table[READ, r], position, used + r
        rows.numbers[begin + position] = used + r
        table[START + OWN, r], table[COUNT + OWN, r] = begin, position + 1
        table[START + SOURCE, r], table[COUNT + SOURCE, r] = first, length
        if both > 0:
            table[START + BOTH, r], table[COUNT + BOTH, r] = both, length + position + 1
            for s in range(length):
                rows.numbers[both + s] = first + s
            for t in range(position + 1):
                rows.numbers[both + length + t] = rows.numbers[begin + t]
            both += length + position + 1


@compiled
def hide_tokens(score: int, position: int, written: Int32, options: Options, banned: Int64) -> None:
    """Mask the tokens that a row must not write: padding, eos before the minimum length, repeated n-grams."""
    store_float(score + 4 * PAD, HIDDEN)
    if position < options.min_length:
        store_float(score + 4 * EOS, HIDDEN)
    if options.no_repeat_ngram > 0:
        for n in range(repeated_tokens(written, position, options.no_repeat_ngram, banned)):
            store_float(score + 4 * banned[n], HIDDEN)


@compiled
def choose(
    score: int, step: int, size: int, rows: int, forced: int, penalties: int, diversity: float, scratch: Scratch
) -> None:
    """Choose the candidates of one group. Tokens that earlier groups chose at this step are penalised in the ranking;
    the sums exclude the penalty.
    """
    table, sums = scratch.table, scratch.sums
    owners, tokens, penalised, count = table[OWNERS], table[TOKENS], table[PENALISED], len(sums)
    for rank in range(count):
        sums[rank], owners[rank], tokens[rank] = f32(-np.inf), 0, 0
    if forced >= 0:
        for w in range(rows):
            value = load_float(score + w * step + 4 * forced) + scratch.before[w]
            if value > sums[count - 1]:
                insert(value, w, forced, sums, owners, tokens)
        return
    for n in range(penalties):
        for w in range(rows):
            address = score + w * step + 4 * penalised[n]
            store_float(address, load_float(address) - f32(diversity))
    best_candidates(score, step, size, scratch.before, rows, sums, owners, tokens)
    for n in range(penalties):
        for rank in range(count):
            if tokens[rank] == penalised[n]:
                sums[rank] += f32(diversity)


@compiled
def finish(slot: int, hypothesis: int, position: int, written: Int32, total: np.float32, found: Found) -> None:
    """Record a finished hypothesis."""
    for t in range(position):
        found.tokens[slot, hypothesis, t] = written[t]
    found.tokens[slot, hypothesis, position] = EOS
    found.sums[slot, hypothesis], found.length[slot, hypothesis] = total, position + 1


@compiled
def advance_source(
    slot: int,
    first: int,
    new: int,
    position: int,
    group_rows: int,
    scores: Int64,
    beams: Beams,
    next_beams: Beams,
    sources: Sources,
    options: Options,
    found: Found,
    scratch: Scratch,
) -> bool:
    """Advance a source's rows (from `first` on, `group_rows` in each group); return whether its search continues.

    `scores` holds address and stride of the scores, address and stride of their normalisers, and the bytes of a row.
    """
    width, table = options.beam // options.groups, scratch.table
    limit, length = sources.table[LIMIT, slot], sources.table[PREFIX_LENGTH, slot]
    forced = forced_token(position, limit, sources.prefix, sources.table[PREFIX_FIRST, slot], length)
    open_groups = 0
    for g in range(options.groups):
        r = first + g * group_rows
        score = scores[0] + r * scores[1]
        for w in range(group_rows):
            scratch.before[w] = beams.totals[r + w] - load_float(scores[2] + (r + w) * scores[3])
            if forced < 0:
                hide_tokens(score + w * scores[1], position, beams.written[r + w], options, table[BANNED])
        choose(score, scores[1], scores[4], group_rows, forced, g * width, options.diversity, scratch)
        for rank in range(width):
            table[PENALISED, g * width + rank] = table[TOKENS, rank]
        done = found.ended[slot, g]
        ending, continuing = split_candidates(
            scratch.sums, table[TOKENS], width, width - done, IMPOSSIBLE, table[ENDED], table[CONTINUING]
        )
        for n in range(ending):
            rank = table[ENDED, n]
            written = beams.written[r + table[OWNERS, rank]]
            finish(slot, g * width + done + n, position, written, scratch.sums[rank], found)
        found.ended[slot, g] = done + ending
        open_groups += done + ending < width
        for n in range(continuing):
            rank, to = table[CONTINUING, n], new + g * width + n
            next_beams.totals[to], next_beams.table[READ, to] = scratch.sums[rank], table[TOKENS, rank]
            next_beams.table[PARENT, to] = r + table[OWNERS, rank]
    return open_groups > 0 and position < max(limit, length) and sources.stop[slot] == 0


@compiled
def inherit(position: int, count: int, beams: Beams, next_beams: Beams, numbers: Int32) -> None:
    """Copy to new rows the tokens and prefix lists of their parents."""
    stride = beams.written.shape[1]
    for new in range(count):
        old = next_beams.table[PARENT, new]
        to, src = next_beams.past + new * stride, beams.past + old * stride
        for t in range(position + 1):
            numbers[to + t] = numbers[src + t]
        for t in range(position):
            next_beams.written[new, t] = beams.written[old, t]
        next_beams.written[new, position] = next_beams.table[READ, new]


@compiled
def make_beams(rows: int, max_tokens: int, past: int, start: int) -> Beams:
    """Rows before the first step."""
    table = np.zeros((2, rows), np.int64)
    for r in range(rows):
        table[READ, r] = start
    return Beams(table, np.zeros(rows, f32), np.zeros((rows, max_tokens), np.int32), past)


@compiled
def decode(
    machine: int,
    program: Int64,
    registers: Int64,
    sources: Sources,
    layout: Layout,
    options: Options,
    rows: Rows,
    found: Found,
) -> int:
    """Search until every source is done; return the number of steps."""
    alive, beam, max_tokens = sources.table.shape[1], options.beam, found.tokens.shape[2]
    width, lists = beam // options.groups, layout.source_rows  # lists follow those of source tokens
    beams = make_beams(alive * beam, max_tokens, lists, layout.start)
    next_beams = make_beams(alive * beam, max_tokens, lists + alive * beam * max_tokens, layout.start)
    scratch = Scratch(np.zeros(width, f32), np.zeros(2 * width, f32), np.zeros((6, 2 * beam + max_tokens), np.int64))
    scores, active = np.zeros(5, np.int64), np.zeros(alive, np.int64)
    scores[0], scores[1] = registers[layout.scores, 0], registers[layout.scores, 1]
    scores[2], scores[3] = registers[layout.normaliser, 0], registers[layout.normaliser, 1]
    scores[4] = layout.score_bytes
    for slot in range(alive):
        active[slot] = slot
    per, used = options.groups, layout.source_rows
    for position in range(max_tokens):
        begin_step(position, per, active, alive, used, beams, sources, layout.both_lists, rows)
        call_at(machine, (program, registers, alive * per, rows))
        used += alive * per
        kept = 0
        for i in range(alive):
            slot, first, new, group_rows = active[i], i * per, kept * beam, per // options.groups
            if advance_source(
                slot, first, new, position, group_rows, scores, beams, next_beams, sources, options, found, scratch
            ):
                active[kept] = slot
                kept += 1
        if kept == 0:
            return position + 1
        inherit(position, kept * beam, beams, next_beams, rows.numbers)
        beams, next_beams = next_beams, beams
        alive, per = kept, beam
    return max_tokens
