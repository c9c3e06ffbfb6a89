"""The edits that turn a source into a hypothesis, chosen to agree with gold edits as far as they can.

The lattice (Dahlmeier & Ng 2012, §3) holds every cheapest way to turn source words into hypothesis words. A node (i, j)
has read i source and written j hypothesis words:

    (i, j) ──delete──▸ (i+1, j)      (i, j) ──insert──▸ (i, j+1)      (i, j) ──keep or substitute──▸ (i+1, j+1)

As in the published scorer two lattices are laid over each other, with substitutions at the price of 1 and of 2. Any run
of steps that keeps at most two words may count as one edit. The best path has the most gold edits, then the fewest
steps outside them, then the fewest edits. The published scorer adds an arc for each run and searches them all; here an
edit is a state of the search (how many words the open edit has kept), which takes time linear in the lattice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from lamina.corpus.m2_format import Edit, Words

MAX_UNCHANGED = 2
CLOSED = -1  # between edits; from 0 up: inside an edit that has kept this many words

Node = tuple[int, int]
Lattice = dict[Node, dict[Node, bool]]  # from a node to its successors: is the step a kept word?


@dataclass(frozen=True)
class Path:
    """How good a path is so far, and which gold edits it took."""

    gold: tuple[int, ...] = ()
    steps: int = 0
    edits: int = 0

    def better(self, other: Path | None) -> bool:
        """More gold edits, then fewer steps, then fewer edits."""
        return other is None or self.rank() > other.rank()

    def rank(self) -> tuple[int, int, int]:
        """Larger is better."""
        return len(self.gold), -self.steps, -self.edits


def count_edits(source: Words, hypothesis: Words, lattice: Lattice, gold: Sequence[Edit]) -> tuple[int, int]:
    """How many gold edits the best path takes, and how many edits it has altogether."""
    arcs = find_gold_arcs(source, hypothesis, lattice, gold)
    best: dict[Node, dict[tuple[int, frozenset[int]], Path]] = defaultdict(dict)

    def reach(node: Node, state: int, path: Path) -> None:
        # a gold insertion could be taken again without reading on, so paths that took others are no rivals here
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
    """Where the hypothesis may be said to have made a gold edit: first node to (number of the gold edit, last node)."""
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
    """Whether steps that keep at most two words lead from one node to another."""
    fewest = {first: 0}
    for i in range(first[0], last[0] + 1):
        for j in range(first[1], last[1] + 1):
            if (i, j) in fewest:
                for after, kept in lattice[i, j].items():
                    fewest[after] = min(fewest.get(after, MAX_UNCHANGED + 1), fewest[i, j] + kept)
    return fewest.get(last, MAX_UNCHANGED + 1) <= MAX_UNCHANGED


def build_lattice(source: Words, hypothesis: Words) -> Lattice:
    """Every cheapest path, with substitutions at the price of 1 and of 2."""
    lattice: Lattice = {(len(source), len(hypothesis)): {}}
    for price in (1, 2):
        add_cheapest_paths(lattice, source, hypothesis, price)
    return lattice


def add_cheapest_paths(lattice: Lattice, source: Words, hypothesis: Words, price: int) -> None:
    """Levenshtein's matrix, then every way back through it."""
    cost = [list(range(len(hypothesis) + 1))]
    for i, word in enumerate(source, start=1):
        above, row = cost[-1], [i]
        for j, written in enumerate(hypothesis, start=1):
            row.append(min(above[j - 1] + (0 if word == written else price), above[j] + 1, row[-1] + 1))
        cost.append(row)
    waiting, seen = [(len(source), len(hypothesis))], set[Node]()
    while waiting:
        i, j = node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        kept = i > 0 and j > 0 and source[i - 1] == hypothesis[j - 1]
        for before, step in (((i - 1, j - 1), 0 if kept else price), ((i - 1, j), 1), ((i, j - 1), 1)):
            if min(before) >= 0 and cost[before[0]][before[1]] + step == cost[i][j]:
                lattice.setdefault(before, {})[node] = kept and step == 0
                waiting.append(before)
