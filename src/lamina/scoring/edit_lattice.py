"""Extraction of the edits between a source and a hypothesis that maximise the overlap with gold edits.

The lattice (Dahlmeier & Ng 2012, §3) contains all minimum-cost alignments of source and hypothesis words. At node
(i, j), i source words are read and j hypothesis words are written:

    (i, j) ──delete──▸ (i+1, j)      (i, j) ──insert──▸ (i, j+1)      (i, j) ──keep or substitute──▸ (i+1, j+1)

As in the published scorer, it is the union of two lattices, with substitution costs of 1 and 2. Any sequence of steps
that keeps at most two words may count as one edit. The best path has the most gold edits, then the fewest steps outside
them, then the fewest edits. The published scorer adds an arc for each such sequence; here an edit is a state of the
search (the number of words kept by the open edit), so the search is linear in the size of the lattice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from lamina.corpus.m2_format import Edit, Words

MAX_UNCHANGED = 2
CLOSED = -1  # state outside any edit; n ≥ 0: inside an edit that has kept n words

Node = tuple[int, int]
Lattice = dict[Node, dict[Node, bool]]  # node to its successors, each with whether the step keeps a word


@dataclass(frozen=True)
class Path:
    """Score of a partial path and the gold edits it uses."""

    gold: tuple[int, ...] = ()
    steps: int = 0
    edits: int = 0

    def better(self, other: Path | None) -> bool:
        """Whether this path ranks above another."""
        return other is None or self.rank() > other.rank()

    def rank(self) -> tuple[int, int, int]:
        """Sort key, larger is better: more gold edits, then fewer steps, then fewer edits."""
        return len(self.gold), -self.steps, -self.edits


def count_edits(source: Words, hypothesis: Words, lattice: Lattice, gold: Sequence[Edit]) -> tuple[int, int]:
    """Return the number of gold edits on the best path and its total number of edits."""
    arcs = find_gold_arcs(source, hypothesis, lattice, gold)
    best: dict[Node, dict[tuple[int, frozenset[int]], Path]] = defaultdict(dict)

    def reach(node: Node, state: int, path: Path) -> None:
        # a gold insertion reads no word and could be taken twice, so paths with different insertions do not compete
        inserted = frozenset(each for each in path.gold if gold[each].start == gold[each].end == node[0])
        if path.better(best[node].get((state, inserted))):
            best[node][state, inserted] = path

    reach((0, 0), CLOSED, Path())
    for node in sorted(lattice):
        for path in list(best[node].values()):
            reach(node, CLOSED, path)
        for closed in [path for (state, _), path in best[node].items() if state == CLOSED]:
            reach(node, 0, Path(closed.gold, closed.steps, closed.edits + 1))
            for index, end in arcs.get(node, ()):
                if index not in closed.gold:
                    reach(end, CLOSED, Path((*closed.gold, index), closed.steps, closed.edits + 1))
        for after, kept in lattice[node].items():
            for (state, _), path in best[node].items():
                unchanged = state + kept if state != CLOSED else CLOSED
                if (kept or state != CLOSED) and unchanged <= MAX_UNCHANGED:
                    reach(after, unchanged, Path(path.gold, path.steps + 1, path.edits))
    ends = best[len(source), len(hypothesis)]
    last = max((path for (state, _), path in ends.items() if state == CLOSED), key=Path.rank)
    return len(last.gold), last.edits


def find_gold_arcs(
    source: Words, hypothesis: Words, lattice: Lattice, gold: Sequence[Edit]
) -> dict[Node, list[tuple[int, Node]]]:
    """Find where the hypothesis makes a gold edit: first node to (index of the gold edit, last node)."""
    arcs: dict[Node, list[tuple[int, Node]]] = defaultdict(list)
    for index, edit in enumerate(gold):
        for words in dict.fromkeys(edit.corrections):
            if words == source[edit.start : edit.end]:
                continue  # an edit that changes nothing cannot be made
            for start in range(len(hypothesis) - len(words) + 1):
                first, last = (edit.start, start), (edit.end, start + len(words))
                if hypothesis[start : last[1]] == words and first in lattice and connected(lattice, first, last):
                    arcs[first].append((index, last))
    return arcs


def connected(lattice: Lattice, first: Node, last: Node) -> bool:
    """Whether a path that keeps at most two words connects two nodes."""
    fewest = {first: 0}
    for i in range(first[0], last[0] + 1):
        for j in range(first[1], last[1] + 1):
            if (i, j) in fewest:
                for after, kept in lattice[i, j].items():
                    fewest[after] = min(fewest.get(after, MAX_UNCHANGED + 1), fewest[i, j] + kept)
    return fewest.get(last, MAX_UNCHANGED + 1) <= MAX_UNCHANGED


def build_lattice(source: Words, hypothesis: Words) -> Lattice:
    """Build the union of all minimum-cost paths for substitution costs of 1 and 2."""
    lattice: Lattice = {(len(source), len(hypothesis)): {}}
    for substitution in (1, 2):
        add_cheapest_paths(lattice, source, hypothesis, substitution)
    return lattice


def add_cheapest_paths(lattice: Lattice, source: Words, hypothesis: Words, substitution: int) -> None:
    """Fill the Levenshtein matrix and add all of its backtraces to the lattice."""
    cost = [list(range(len(hypothesis) + 1))]
    for i, word in enumerate(source, start=1):
        above, row = cost[-1], [i]
        for j, written in enumerate(hypothesis, start=1):
            row.append(min(above[j - 1] + (0 if word == written else substitution), above[j] + 1, row[-1] + 1))
        cost.append(row)
    waiting, seen = [(len(source), len(hypothesis))], set[Node]()
    while waiting:
        i, j = node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        kept = i > 0 and j > 0 and source[i - 1] == hypothesis[j - 1]
        for before, step in (((i - 1, j - 1), 0 if kept else substitution), ((i - 1, j), 1), ((i, j - 1), 1)):
            if min(before) >= 0 and cost[before[0]][before[1]] + step == cost[i][j]:
                lattice.setdefault(before, {})[node] = kept and step == 0
                waiting.append(before)
