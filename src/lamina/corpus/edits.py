"""What a correction changed: the edits between two tokenised sentences."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lamina.corpus.m2_format import Edit, Words

KEPT, REPLACED, DELETED, INSERTED = range(4)


def find_edits(source: Words, target: Words) -> list[Edit]:
    """Adjacent changes form one edit. Substituting a word costs less the more similar the words are."""
    edits: list[Edit] = []
    start = end = 0
    words: list[str] = []

    def close() -> None:
        nonlocal words
        if start < end or words:
            edits.append(Edit(start, end, (tuple(words),)))
        words = []

    at = written = 0
    for step in align(source, target):
        if step == KEPT:
            close()
            start = end = at + 1
        elif step != INSERTED:
            end = at + 1
        if step in (REPLACED, INSERTED):
            words.append(target[written])
        at, written = at + (step != INSERTED), written + (step != DELETED)
    close()
    return edits


def align(source: Words, target: Words) -> list[int]:
    """The cheapest steps from one sentence to the other."""
    cost = [[float(j) for j in range(len(target) + 1)]]
    for i, word in enumerate(source, start=1):
        above, row = cost[-1], [float(i)]
        for j, written in enumerate(target, start=1):
            row.append(min(above[j - 1] + replacement_cost(word, written), above[j] + 1, row[-1] + 1))
        cost.append(row)
    steps, i, j = [], len(source), len(target)
    while i or j:
        if i and j:
            price = replacement_cost(source[i - 1], target[j - 1])
            if cost[i][j] == cost[i - 1][j - 1] + price:
                steps.append(REPLACED if price else KEPT)
                i, j = i - 1, j - 1
                continue
        if i and cost[i][j] == cost[i - 1][j] + 1:
            steps.append(DELETED)
            i -= 1
        else:
            steps.append(INSERTED)
            j -= 1
    return steps[::-1]


def replacement_cost(one: str, other: str) -> float:
    """0 for the same word, least for words that share most of their letters."""
    if one == other:
        return 0.0
    if one.lower() == other.lower():
        return 0.5
    shared = len(set(one.lower()) & set(other.lower())) / max(len(set(one.lower())), len(set(other.lower())), 1)
    return 1.75 - shared


def changed_tokens(source: Sequence[Hashable], target: Sequence[Hashable]) -> NDArray[np.bool_]:
    """Which tokens of the target are not on its longest common subsequence with the source.

    The table of lengths is kept as differences in the bits of one integer for each target token (Hyyrö 2004).
    """
    places: dict[Any, int] = {}
    for place, token in enumerate(source):
        places[token] = places.get(token, 0) | 1 << place
    everything = (1 << len(source)) - 1
    bits, rows = everything, []
    for token in target:
        shared = bits & places.get(token, 0)
        bits = ((bits + shared) | (bits - shared)) & everything
        rows.append(bits)
    changed = np.ones(len(target), dtype=np.bool_)
    row, column = len(target), len(source)
    while row and column:
        if rows[row - 1] >> (column - 1) & 1:
            column -= 1
            continue
        row -= 1
        if row and not rows[row - 1] >> (column - 1) & 1:
            continue
        changed[row] = False
        column -= 1
    return changed
