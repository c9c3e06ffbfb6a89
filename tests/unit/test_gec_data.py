"""Data for grammatical error correction: .m2 files, edits, edit weights, word dropout, synthetic errors."""

from __future__ import annotations

from dataclasses import replace
from difflib import SequenceMatcher
from pathlib import Path
from random import Random

import numpy as np
import pytest

from lamina.corpus.edits import changed_tokens, find_edits
from lamina.corpus.m2 import M2File
from lamina.corpus.m2_format import Edit, apply_edits, parse_m2, write_m2
from lamina.corpus.noise import Confusions, ErrorMix, ErrorSettings, Noise
from lamina.corpus.word_dropout import WordDropout
from lamina.errors import DataError
from lamina.text.pipeline import make_pipeline, pipeline_of_words
from lamina.text.subwords import learn_sentencepiece
from lamina.text.vocabulary import EOS, UNK, Vocabularies
from support import WORDS

M2 = """\
S This are a sentence .
A 1 2|||SVA|||is|||REQUIRED|||-NONE-|||0
A 2 4|||R|||one phrase|||REQUIRED|||-NONE-|||0
A 3 4|||R|||line|||REQUIRED|||-NONE-|||0
A -1 -1|||noop|||-NONE-|||REQUIRED|||-NONE-|||1

S Fine as it is .

S Two agree
A 2 2|||M|||.|||REQUIRED|||-NONE-|||0
A 2 2|||M|||.|||REQUIRED|||-NONE-|||1
"""


@pytest.fixture
def m2(tmp_path: Path) -> Path:
    path = tmp_path / "train.m2"
    path.write_text(M2)
    return path


def test_an_m2_file_gives_a_pair_for_each_annotator(m2: Path) -> None:
    assert list(M2File(m2).pairs()) == [
        ("This are a sentence .", "This is one phrase ."),  # of two overlapping edits the first is applied
        ("This are a sentence .", "This are a sentence ."),
        ("Fine as it is .", "Fine as it is ."),
        ("Two agree", "Two agree ."),
    ]
    assert next(target for _, target in M2File(m2, "1").pairs()) == "This are a sentence ."


def test_an_unknown_annotator_is_named(m2: Path) -> None:
    with pytest.raises(DataError, match=r"train.m2: has no annotator `7`, only 0, 1\.$"):
        list(M2File(m2, "7").pairs())


def test_an_m2_file_without_edits_is_correct_text(tmp_path: Path) -> None:
    path = tmp_path / "clean.m2"
    path.write_text("S a b\n\nS c\n")
    assert list(M2File(path).pairs()) == [("a b", "a b"), ("c", "c")]


def test_edits_transform_source_to_target_and_are_minimal() -> None:
    random = Random(3)
    for _ in range(200):
        source, target = (tuple(random.choices("abcd", k=random.randrange(9))) for _ in range(2))
        edits = find_edits(source, target)
        assert apply_edits(source, edits) == target
        assert parse_m2(write_m2(source, edits))[0].annotators["0"] == edits
    words = ("He", "go", "to", "school", "yesterday")
    assert find_edits(words, ("He", "went", "to", "the", "school")) == [
        Edit(1, 2, (("went",),)),
        Edit(3, 3, (("the",),)),
        Edit(4, 5, ((),)),
    ]


def lcs(source: str, target: str) -> int:
    table = [[0] * (len(target) + 1) for _ in range(len(source) + 1)]
    for i, one in enumerate(source):
        for j, other in enumerate(target):
            table[i + 1][j + 1] = table[i][j] + 1 if one == other else max(table[i][j + 1], table[i + 1][j])
    return table[-1][-1]


def test_changed_tokens_are_outside_the_longest_common_subsequence() -> None:
    random = Random(5)
    for _ in range(300):
        source, target = ("".join(random.choices("abc", k=random.randrange(12))) for _ in range(2))
        changed = changed_tokens(source, target)
        kept = "".join(token for token, off in zip(target, changed, strict=True) if not off)
        assert len(kept) == lcs(source, target)
        blocks = SequenceMatcher(None, kept, source, autojunk=False).ratio()
        assert not kept or blocks > 0
        rest = iter(source)
        assert all(token in rest for token in kept)  # a subsequence
    assert changed_tokens("", "ab").tolist() == [True, True]


def test_word_dropout_drops_whole_words_deterministically_by_position() -> None:
    text = make_pipeline(
        "sentencepiece", ("en", "en"), False, {"subwords.model": learn_sentencepiece(["abc abd xyz uvw"] * 50, 300)}
    )
    (ids,) = text.source.encode(["abcx uvwab xyz"])
    dropout = WordDropout(text, 0.5, seed=1)
    pieces = text.source.vocabulary.symbols
    words = np.cumsum([pieces[each].startswith("▁") for each in ids[:-1]])
    seen = set()
    for epoch in range(30):
        found = dropout(np.array(ids), epoch, 0)
        assert found[-1] == EOS
        assert found.tolist() == dropout(np.array(ids), epoch, 0).tolist()
        gone = found[:-1] == UNK
        for word in set(words.tolist()):
            assert gone[words == word].all() or not gone[words == word].any()
        seen.add(tuple(gone))
    assert len(seen) > 3
    marian = WordDropout(replace(text, kind="marian"), 0.5, seed=1)
    assert marian(np.array(ids), 3, 0).tolist() == dropout(np.array(ids), 3, 0).tolist()
    plain = WordDropout(pipeline_of_words(Vocabularies(WORDS, WORDS)), 0.5, seed=1)
    assert set(plain(np.array([5, 6, 7, EOS]), 0, 0).tolist()) <= {5, 6, 7, UNK, EOS}


CLEAN = ["The old man lives in a small house , and he is happy .", "We have been there ."] * 20


def test_noise_is_deterministic_and_close_to_its_rate() -> None:
    one, again, other = (list(Noise("en", ErrorSettings(), seed).pairs(CLEAN)) for seed in (1, 1, 2))
    assert one == again != other
    assert [clean for _, clean in one] == CLEAN
    assert [Noise("en", ErrorSettings(), 1).line(CLEAN[0], 3)] == [one[2][0]]  # streaming: each line is independent
    edits = sum(len(find_edits(tuple(clean.split()), tuple(noisy.split()))) for noisy, clean in one)
    words = sum(len(clean.split()) for clean in CLEAN)
    assert 0.05 < edits / words < 0.18
    assert [noisy for noisy, _ in Noise("en", ErrorSettings(rate=0.0), 1).pairs(CLEAN)] == CLEAN


@pytest.mark.parametrize("kind", ErrorMix.model_fields)
def test_every_kind_of_error_alone(kind: str) -> None:
    mix = ErrorMix(**{name: float(name == kind) for name in ErrorMix.model_fields})
    noise = Noise("en", ErrorSettings(rate=0.5, mix=mix), 1)
    assert any(noisy != clean for noisy, clean in noise.pairs(CLEAN))


def test_misspelled_by_sound() -> None:
    """Keeps the first letter and uses a similar-sounding spelling; no change in a language without a table."""
    noise = Noise("en", ErrorSettings(), 1)
    spelt = {noise.spell_by_sound("phase", Random(seed)) for seed in range(50)}
    assert {"phace", "phese", "phas"} <= spelt
    assert all(word[0] == "p" and word != "phase" for word in spelt)
    assert noise.spell_by_sound("the", Random(1)) is None
    assert Noise("xx", ErrorSettings(), 1).spell_by_sound("phase", Random(1)) is None


def test_other_languages_and_empty_lines() -> None:
    noise = Noise("xx", ErrorSettings(rate=0.9), 1)
    assert next(iter(noise.pairs(["", "слово"]))) == ("", "")
    assert all(noisy for noisy, clean in noise.pairs(["dwa słowa tutaj"]))


def test_confusions_are_learned_from_annotators(m2: Path, tmp_path: Path) -> None:
    learned = Confusions.learn(m2)
    assert dict(learned.errors[("is",)]) == {("are",): 1}
    mix = ErrorMix(**{name: float(name == "confusion") for name in ErrorMix.model_fields})
    noise = Noise("xx", ErrorSettings(rate=0.99, mix=mix), 1, learned)
    assert noise.line("it is one phrase", 1) == "it are a sentence"
    (tmp_path / "none.m2").write_text("S a b\n")
    with pytest.raises(DataError, match=r"none.m2: has no edits to learn confusions from\."):
        Confusions.learn(tmp_path / "none.m2")
