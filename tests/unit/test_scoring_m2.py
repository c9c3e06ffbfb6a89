"""MaxMatch by hand, against an exhaustive search, and on real annotations."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import pytest

from lamina.base.reading import read_lines
from lamina.corpus.m2_format import Annotated, Edit, Words, parse_m2
from lamina.errors import DataError, UsageError
from lamina.scoring.edit_lattice import Lattice, Node, build_lattice, count_edits
from lamina.scoring.m2 import MaxMatch
from lamina.scoring.protocol import Gold, score
from support import SHARED, needs_shared

TEXT = """S This are a sentence .
A 1 2|||SVA|||is|||REQUIRED|||-NONE-|||0
A 4 4|||Punct|||here|||REQUIRED|||-NONE-|||0
A 0 1|||Det|||These||Those|||REQUIRED|||-NONE-|||1
A 2 4|||Noun|||sentences|||REQUIRED|||-NONE-|||1

S All is well .
A -1 -1|||noop|||-NONE-|||REQUIRED|||-NONE-|||0

S No annotation
"""
EXAMPLE = TEXT.split("\n")


def counts(source: str, hypothesis: str, *gold: tuple[int, int, str]) -> tuple[int, int]:
    edits = [Edit(start, end, (tuple(words.split()),)) for start, end, words in gold]
    words = tuple(source.split()), tuple(hypothesis.split())
    return count_edits(*words, build_lattice(*words), edits)


def test_parsing() -> None:
    first, second, third = parse_m2(EXAMPLE)
    assert first.words == ("This", "are", "a", "sentence", ".")
    assert first.annotators["0"] == [Edit(1, 2, (("is",),)), Edit(4, 4, (("here",),))]
    assert first.annotators["1"][0] == Edit(0, 1, (("These",), ("Those",)))
    assert second.annotators == {"0": []}
    assert third.annotators == {"0": []}


def test_invalid_m2_is_reported() -> None:
    with pytest.raises(DataError, match=r"x\.m2:2: must be `A START END\|\|\|TYPE"):
        parse_m2(["S a b", "A 0 1|||x"], "x.m2")
    with pytest.raises(DataError, match=r"x\.m2:2: words 1 to 3 lie outside a sentence of 2 words"):
        parse_m2(["S a b", "A 1 3|||x|||y|||REQUIRED|||-NONE-|||0"], "x.m2")
    with pytest.raises(DataError, match=r"x\.m2:1: not \.m2: must be an S line"):
        parse_m2(["a b"], "x.m2")


def test_edits_by_hand() -> None:
    assert counts("a b c", "a b c", (0, 1, "x")) == (0, 0)
    assert counts("a b c", "a x c", (1, 2, "x")) == (1, 1)
    assert counts("a b c", "a x c", (1, 2, "y")) == (0, 1)
    assert counts("a b c", "a c", (1, 2, "")) == (1, 1)
    assert counts("a b", "a x b", (1, 1, "x")) == (1, 1)
    assert counts("a b c", "", (0, 3, "")) == (1, 1)
    assert counts("", "a", (0, 0, "a")) == (1, 1)


def test_gold_determines_the_segmentation_of_edits() -> None:
    # the same change as one phrase, as two words and as a phrase with unchanged words
    assert counts("a b c d", "a x y d", (1, 3, "x y")) == (1, 1)
    assert counts("a b c d", "a x y d", (1, 2, "x"), (2, 3, "y")) == (2, 2)
    assert counts("a b c d", "a x c d", (0, 3, "a x c")) == (1, 1)
    assert counts("a b c d e", "a x c d e", (0, 4, "a x c d")) == (0, 1)  # three unchanged words are too many


def test_unmatched_edits_are_merged_over_two_unchanged_words_but_not_three() -> None:
    assert counts("a b c d", "x b c y") == (0, 1)
    assert counts("a b c d e", "x b c d y") == (0, 2)


def test_a_gold_edit_counts_once() -> None:
    assert counts("b", "a a b", (0, 0, "a")) == (1, 2)
    assert counts("b", "a a b", (0, 0, "a"), (0, 0, "a")) == (2, 2)


def paths(lattice: Lattice, node: Node, end: Node) -> Iterator[list[tuple[Node, bool]]]:
    if node == end:
        yield []
    for after, kept in lattice[node].items():
        for rest in paths(lattice, after, end):
            yield [(after, kept), *rest]


def search_all(source: Words, hypothesis: Words, gold: list[Edit]) -> tuple[int, int]:
    """Search every path with every segmentation into edits."""
    best: tuple[int, int, int] | None = None

    def extend(node: Node, rest: list[tuple[Node, bool]], taken: frozenset[int], steps: int, edits: int) -> None:
        nonlocal best
        if not rest:
            rank = -len(taken), steps, edits
            best = rank if best is None else min(best, rank)
            return
        if rest[0][1]:
            extend(rest[0][0], rest[1:], taken, steps + 1, edits)
        for length in range(1, len(rest) + 1):
            if sum(kept for _, kept in rest[:length]) > 2:
                break
            if all(kept for _, kept in rest[:length]):
                continue
            after = rest[length - 1][0]
            words = hypothesis[node[1] : after[1]]
            for index, edit in enumerate(gold):
                same = (edit.start, edit.end) == (node[0], after[0]) and words in edit.corrections
                if same and index not in taken:
                    extend(after, rest[length:], taken | {index}, steps, edits + 1)
            extend(after, rest[length:], taken, steps + length, edits + 1)

    lattice = build_lattice(source, hypothesis)
    for path in paths(lattice, (0, 0), (len(source), len(hypothesis))):
        extend((0, 0), path, frozenset(), 0, 0)
    assert best is not None
    return -best[0], best[2]


def test_the_best_path_is_the_best_of_all() -> None:
    generator = random.Random(3)
    for _ in range(250):
        source = tuple(generator.choices("abc", k=generator.randint(0, 4)))
        hypothesis = tuple(generator.choices("abc", k=generator.randint(0, 4)))
        gold = []
        for _ in range(3):
            start = generator.randint(0, len(source))
            end = generator.randint(start, len(source))
            words = tuple(generator.choices("abc", k=generator.randint(0 if end > start else 1, 2)))
            if words != source[start:end] and Edit(start, end, (words,)) not in gold:
                gold.append(Edit(start, end, (words,)))
        found = count_edits(source, hypothesis, build_lattice(source, hypothesis), gold)
        assert found == search_all(source, hypothesis, gold), (source, hypothesis, gold)


def test_corpus_score_by_hand() -> None:
    metric = MaxMatch(Gold([EXAMPLE]))
    found = score(metric, ["This is a sentence .", "All is good .", "No annotation"])
    # against the first annotator: 1 correct, 1 proposed, 2 gold; then one unmatched edit
    assert found.details == {"precision": 50.0, "recall": 50.0, "correct": 1, "proposed": 2, "gold": 2}
    assert found.score == pytest.approx(50.0)
    second = score(metric, ["Those are sentences .", "All is well .", "No annotation"])
    assert second.score == 100.0


def test_several_files_and_lower_casing_are_rejected() -> None:
    with pytest.raises(UsageError, match="m2 takes one reference"):
        MaxMatch(Gold([EXAMPLE, EXAMPLE]))
    with pytest.raises(UsageError, match="m2 cannot ignore case"):
        MaxMatch(Gold([EXAMPLE], lowercase=True))


def correct(sentence: Annotated, annotator: str) -> str:
    words, at = [], 0
    for edit in sorted(sentence.annotators[annotator], key=lambda edit: (edit.start, edit.end)):
        words += [*sentence.words[at : edit.start], *edit.corrections[0]]
        at = edit.end
    return " ".join([*words, *sentence.words[at:]])


@pytest.mark.slow
@needs_shared
def test_annotators_of_ua_gec_agree_with_themselves() -> None:
    lines = list(read_lines(SHARED / "data" / "ua-gec" / "test-part.m2.gz"))
    sentences = parse_m2(lines)
    assert len(sentences) == 900
    for annotator in "01":
        own = [line for line in lines if not line.startswith("A ") or line.endswith(f"|||{annotator}")]
        began = time.monotonic()
        assert score(MaxMatch(Gold([own])), [correct(each, annotator) for each in sentences]).score == 100.0
        assert time.monotonic() - began < 30
    copied = score(MaxMatch(Gold([lines])), [" ".join(each.words) for each in sentences])
    assert (copied.score, copied.details["recall"], copied.details["proposed"]) == (0.0, 0.0, 0.0)
