"""The edits between two tokenised sentences."""

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
    """Align two sentences: the steps of minimum total cost from source to target."""
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
    """Cost of replacing a word: 0 for the same word, and lower the more letters the two share."""
    if one == other:
        return 0.0
    if one.lower() == other.lower():
        return 0.5
    shared = len(set(one.lower()) & set(other.lower())) / max(len(set(one.lower())), len(set(other.lower())), 1)
    return 1.75 - shared


def changed_tokens(source: Sequence[Hashable], target: Sequence[Hashable]) -> NDArray[np.bool_]:
    """Mask of target tokens that are not in the longest common subsequence of source and target.

    Bit-parallel: each row of the dynamic-programming table is the bits of one integer (Hyyrö 2004).
    """
    positions: dict[Any, int] = {}
    for position, token in enumerate(source):
        positions[token] = positions.get(token, 0) | 1 << position
    all_ones = (1 << len(source)) - 1
    bits, rows = all_ones, []
    for token in target:
        matches = bits & positions.get(token, 0)
        bits = ((bits + matches) | (bits - matches)) & all_ones
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
