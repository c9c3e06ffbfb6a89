"""Beam search of a whole batch in one compiled call, without Python and without its lock.

Sources are of any length: nothing is padded. Rows (hypotheses) of a source are adjacent. Keys and values of
written positions stay where they were written; each row has a list of those that it descends from (`Rows.numbers`), and
when search swaps rows only these lists are copied.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lamina.engine.machine import BOTH, COUNT, OWN, PLACE, POSITION, SOURCE, START, TOKEN, Rows, execute
from lamina.engine.operations import HIDDEN, Floats, Int32, Int64, f32
from lamina.engine.products import compiled
from lamina.engine.vectors import (
    BYTES,
    LANES,
    lanes_above,
    load,
    load_float,
    lowest_bit,
    splat,
    store_float,
)
from lamina.search import rules
from lamina.text.vocabulary import BOS, EOS, PAD

forced_token = compiled(rules.forced_token)
repeated_tokens = compiled(rules.repeated_tokens)
split_candidates = compiled(rules.split_candidates)
ROW, SOURCE_TOKEN, WRITTEN, POSITION_VECTOR, FIXED = range(5)  # what a register has a row for
IMPOSSIBLE: Any = f32(-1e29)  # sums below this contain a hidden score


FIRST, LENGTH, LIMIT, PREFIX_FIRST, PREFIX_LENGTH = range(5)  # rows of `Sources.table`


class Sources(NamedTuple):
    """A batch of sources one after another, and what their targets must be like."""

    tokens: Int64
    prefix: Int64  # all forced prefixes one after another
    table: Int64  # by source: its first token, its length with eos, the most tokens before eos, where its prefix begins
    # and how long that is
    stop: Int64  # set to 1 during the search to give this source up


class Layout(NamedTuple):
    """Where a program keeps what search needs."""

    scores: int  # the register of scores …
    normaliser: int  # … and of what to subtract from them
    score_bytes: int  # of a row of scores
    start: int  # the token that targets begin with
    source_rows: int  # rows that caches keep for source tokens, before those of written positions
    both_lists: int  # in `Rows.numbers`: lists of rows that attend to source and past at once; 0 if none does


class Options(NamedTuple):
    """How to search."""

    beam: int
    groups: int
    diversity: float
    min_length: int
    no_repeat_ngram: int


class Found(NamedTuple):
    """Finished hypotheses of each source, in the order in which they ended."""

    tokens: Int32  # (source, hypothesis, position)
    length: Int64
    sums: Floats
    ended: Int64  # (source, group): how many


READ, PARENT = 0, 1  # rows of `Beams.table`


class Beams(NamedTuple):
    """The rows of one step: adjacent for each source that is still active."""

    table: Int64  # by row: the token that it reads next, and the row of the step before that it continues
    totals: Floats  # sums of log p
    written: Int32  # (row, position)
    past: int  # in `Rows.numbers`: where lists of written positions begin, one every `written.shape[1]` entries


OWNERS, TOKENS, ENDED, GOING, BANNED, PENALISED = range(6)  # rows of `Scratch.table`


class Scratch(NamedTuple):
    """What the choice among the candidates of one source needs."""

    before: Floats  # what to add to each row's scores
    sums: Floats  # of the candidates, best first
    table: Int64  # their rows and tokens; ranks that end and go on; tokens that must not be written, or pay for it


@compiled
def describe_sentences(tokens: Int64, first: int, begin: int, length: int, lists: int, rows: Rows) -> int:
    """Tell the machine of each row's sentence (view SOURCE, its number in PLACE) and of the last row of every sentence
    of its document (view BOTH, a list in `Rows.numbers`); gives where the next list may begin.
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
def encode(program: Int64, registers: Int64, kinds: Int64, sources: Sources, rows: Rows, most: int) -> None:
    """Run the encoder over all source tokens, some sources at a time; memories go to registers by source token."""
    local = np.zeros(registers.shape, np.int64)
    begin, count = 0, sources.table.shape[1]
    while begin < count:
        first, end, used = sources.table[FIRST, begin], begin, 0
        lists = len(sources.tokens)
        while end < count and (used == 0 or used + sources.table[LENGTH, end] <= most):
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
        execute(program, local, used, rows)
        begin = end


@compiled
def insert(value: np.float32, owner: int, token: int, sums: Floats, owners: Int64, tokens: Int64) -> None:
    """Put a candidate at its rank; of equal ones the first stays ahead."""
    rank = len(sums) - 1
    while rank > 0 and value > sums[rank - 1]:
        sums[rank], owners[rank], tokens[rank] = sums[rank - 1], owners[rank - 1], tokens[rank - 1]
        rank -= 1
    sums[rank], owners[rank], tokens[rank] = value, owner, token


@compiled
def best_candidates(
    scores: int, step: int, size: int, before: Floats, rows: int, sums: Floats, owners: Int64, tokens: Int64
) -> None:
    """The best continuations of a unit's rows, best first: whole vectors are skipped unless a lane is good enough."""
    last = len(sums) - 1
    for w in range(rows):
        row = scores + w * step
        least = splat(max(sums[last], IMPOSSIBLE) - before[w])
        for k in range(0, size, 2 * BYTES):
            bits = lanes_above(load(row + k), least) | (lanes_above(load(row + k + BYTES), least) << LANES)
            while bits:
                token = k // 4 + lowest_bit(bits)
                bits &= bits - 1
                value = load_float(row + 4 * token) + before[w]
                if value > sums[last]:
                    insert(value, w, token, sums, owners, tokens)
                    least = splat(max(sums[last], IMPOSSIBLE) - before[w])


@compiled
def begin_step(
    position: int, per: int, active: Int64, alive: int, used: int, beams: Beams, sources: Sources, both: int, rows: Rows
) -> None:
    """Tell the machine what each row reads: its token, its past, its source; from `both` on lists of the last two."""
    room, table = beams.written.shape[1], rows.table
    for r in range(alive * per):
        slot, begin = active[r // per], beams.past + r * room
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
    """What a row with a choice must not write: padding, an end that is too early, a repeated n-gram."""
    store_float(score + 4 * PAD, HIDDEN)
    if position < options.min_length:
        store_float(score + 4 * EOS, HIDDEN)
    if options.no_repeat_ngram > 0:
        for n in range(repeated_tokens(written, position, options.no_repeat_ngram, banned)):
            store_float(score + 4 * banned[n], HIDDEN)


@compiled
def choose(
    score: int, step: int, size: int, rows: int, forced: int, penalties: int, diversity: float, own: Scratch
) -> None:
    """The candidates of one group. It pays for what earlier groups chose at this step; sums stay the model's own."""
    owners, tokens, penalised, count = own.table[OWNERS], own.table[TOKENS], own.table[PENALISED], len(own.sums)
    for rank in range(count):
        own.sums[rank], owners[rank], tokens[rank] = f32(-np.inf), 0, 0
    if forced >= 0:
        for w in range(rows):
            value = load_float(score + w * step + 4 * forced) + own.before[w]
            if value > own.sums[count - 1]:
                insert(value, w, forced, own.sums, owners, tokens)
        return
    for n in range(penalties):
        for w in range(rows):
            place = score + w * step + 4 * penalised[n]
            store_float(place, load_float(place) - f32(diversity))
    best_candidates(score, step, size, own.before, rows, own.sums, owners, tokens)
    for n in range(penalties):
        for rank in range(count):
            if tokens[rank] == penalised[n]:
                own.sums[rank] += f32(diversity)


@compiled
def finish(slot: int, hypothesis: int, position: int, written: Int32, total: np.float32, found: Found) -> None:
    """Write a hypothesis that has ended."""
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
    own: int,
    scores: Int64,
    beams: Beams,
    following: Beams,
    sources: Sources,
    options: Options,
    found: Found,
    scratch: Scratch,
) -> bool:
    """Choose how a source's rows (from `first` on, `own` in each group) continue; whether it is still searched.

    `scores` has address and step of the scores, address and step of their normalisers, and the bytes of a row.
    """
    width, table = options.beam // options.groups, scratch.table
    limit, length = sources.table[LIMIT, slot], sources.table[PREFIX_LENGTH, slot]
    forced = forced_token(position, limit, sources.prefix, sources.table[PREFIX_FIRST, slot], length)
    open_groups = 0
    for g in range(options.groups):
        r = first + g * own
        score = scores[0] + r * scores[1]
        for w in range(own):
            scratch.before[w] = beams.totals[r + w] - load_float(scores[2] + (r + w) * scores[3])
            if forced < 0:
                hide_tokens(score + w * scores[1], position, beams.written[r + w], options, table[BANNED])
        choose(score, scores[1], scores[4], own, forced, g * width, options.diversity, scratch)
        for rank in range(width):
            table[PENALISED, g * width + rank] = table[TOKENS, rank]
        done = found.ended[slot, g]
        ending, continuing = split_candidates(
            scratch.sums, table[TOKENS], width, width - done, IMPOSSIBLE, table[ENDED], table[GOING]
        )
        for n in range(ending):
            rank = table[ENDED, n]
            written = beams.written[r + table[OWNERS, rank]]
            finish(slot, g * width + done + n, position, written, scratch.sums[rank], found)
        found.ended[slot, g] = done + ending
        open_groups += done + ending < width
        for n in range(continuing):
            rank, to = table[GOING, n], new + g * width + n
            following.totals[to], following.table[READ, to] = scratch.sums[rank], table[TOKENS, rank]
            following.table[PARENT, to] = r + table[OWNERS, rank]
    return open_groups > 0 and position < max(limit, length) and sources.stop[slot] == 0


@compiled
def inherit(position: int, count: int, beams: Beams, following: Beams, numbers: Int32) -> None:
    """New rows take over what their parents wrote, and where its keys and values are."""
    room = beams.written.shape[1]
    for new in range(count):
        old = following.table[PARENT, new]
        to, come = following.past + new * room, beams.past + old * room
        for t in range(position + 1):
            numbers[to + t] = numbers[come + t]
        for t in range(position):
            following.written[new, t] = beams.written[old, t]
        following.written[new, position] = following.table[READ, new]


@compiled
def make_beams(rows: int, room: int, past: int, start: int) -> Beams:
    """Rows that have written nothing."""
    table = np.zeros((2, rows), np.int64)
    for r in range(rows):
        table[READ, r] = start
    return Beams(table, np.zeros(rows, f32), np.zeros((rows, room), np.int32), past)


@compiled
def decode(
    program: Int64, registers: Int64, sources: Sources, layout: Layout, options: Options, rows: Rows, found: Found
) -> int:
    """Search until every source has its hypotheses; gives the number of steps."""
    alive, beam, room = sources.table.shape[1], options.beam, found.tokens.shape[2]
    width, lists = beam // options.groups, layout.source_rows  # lists come after the numbers of the source tokens
    beams = make_beams(alive * beam, room, lists, layout.start)
    following = make_beams(alive * beam, room, lists + alive * beam * room, layout.start)
    scratch = Scratch(np.zeros(width, f32), np.zeros(2 * width, f32), np.zeros((6, 2 * beam + room), np.int64))
    scores, active = np.zeros(5, np.int64), np.zeros(alive, np.int64)
    scores[0], scores[1] = registers[layout.scores, 0], registers[layout.scores, 1]
    scores[2], scores[3] = registers[layout.normaliser, 0], registers[layout.normaliser, 1]
    scores[4] = layout.score_bytes
    for slot in range(alive):
        active[slot] = slot
    per, used = options.groups, layout.source_rows
    for position in range(room):
        begin_step(position, per, active, alive, used, beams, sources, layout.both_lists, rows)
        execute(program, registers, alive * per, rows)
        used += alive * per
        kept = 0
        for i in range(alive):
            slot, first, new, own = active[i], i * per, kept * beam, per // options.groups
            if advance_source(
                slot, first, new, position, own, scores, beams, following, sources, options, found, scratch
            ):
                active[kept] = slot
                kept += 1
        if kept == 0:
            return position + 1
        inherit(position, kept * beam, beams, following, rows.numbers)
        beams, following = following, beams
        alive, per = kept, beam
    return room
