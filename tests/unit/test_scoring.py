"""Scores computed by hand, and published ones."""

from __future__ import annotations

import math
import sys

import pytest
import sacrebleu

from lamina.base.reading import read_lines
from lamina.errors import DataError, MissingExtraError, UsageError
from lamina.scoring import tokenizers
from lamina.scoring.metrics import METRICS, build_metrics, check_names
from lamina.scoring.protocol import Gold, Score, score
from support import SHARED, needs_shared

HYPOTHESES = ["the cat sat on the mat .", "a dog barks", "Nobody knows it yet , I think ."]
REFERENCES = [
    ["the cat sat on a mat .", "the dog barks loudly", "nobody knows it yet , I believe ."],
    ["a cat was on the mat .", "a dog is barking", "I think nobody knows it ."],
]


def run(name: str, hypotheses: list[str], references: list[list[str]], **gold: object) -> Score:
    (metric,) = build_metrics([name], Gold(references, **gold))  # type: ignore[arg-type]
    return score(metric, hypotheses)


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("lowercase", [False, True])
def test_scores_match_sacrebleu(count: int, lowercase: bool) -> None:
    references = REFERENCES[:count]
    for name, theirs in (
        ("bleu", sacrebleu.BLEU(lowercase=lowercase)),
        ("chrf", sacrebleu.CHRF(lowercase=lowercase)),
        ("ter", sacrebleu.TER()),
    ):
        ours = run(name, HYPOTHESES, references, lowercase=lowercase)
        assert ours.score == pytest.approx(theirs.corpus_score(HYPOTHESES, references).score, abs=1e-9)
        assert ours.signature == theirs.get_signature().format()


def test_details_of_sacrebleu_scores() -> None:
    bleu = run("bleu", ["a b c d"], [["a b c e f"]])
    assert bleu.details["precision_1"] == pytest.approx(75)
    assert bleu.details["precision_2"] == pytest.approx(100 * 2 / 3)
    assert bleu.details["bp"] == pytest.approx(math.exp(1 - 5 / 4))
    ter = run("ter", ["a b c d"], [["a b x d"]])
    assert (ter.score, ter.details) == (25.0, {"edits": 1.0, "ref_length": 4.0})
    chrf = run("chrf", ["ab"], [["ac"]])
    assert chrf.details == {"precision": 25.0, "recall": 25.0}  # half of the single characters, none of the pairs


def test_multi_bleu_by_hand() -> None:
    # 6 of 7 words, 4 of 6 pairs, 2 of 5 triples, 1 of 4 quadruples; the lengths are equal
    found = run("multi-bleu", ["the cat sat on the mat ."], [["the cat sat on a mat ."]])
    assert found.score == pytest.approx(100 * (6 / 7 * 4 / 6 * 2 / 5 * 1 / 4) ** 0.25)
    assert found.details["bp"] == 1.0
    assert found.signature.startswith("tokenised BLEU, not comparable with sacreBLEU")


def test_multi_bleu_takes_the_closest_length_and_the_shorter_of_two() -> None:
    lengths = [["a b c", "a b c d e"], ["a b c d e", "a b c"]]
    found = run("multi-bleu", ["a b c d", "a b c d"], lengths)
    assert found.details["ref_length"] == 6
    assert run("multi-bleu", ["a b c d"], [["a b c d e f"], ["a b"]]).details["ref_length"] == 2


@pytest.mark.parametrize("count", [1, 2])
def test_multi_bleu_is_sacrebleu_without_tokenisation_and_smoothing(count: int) -> None:
    theirs = sacrebleu.BLEU(tokenize="none", smooth_method="none")
    references = REFERENCES[:count]
    ours = run("multi-bleu", HYPOTHESES, references)
    assert ours.score == pytest.approx(theirs.corpus_score(HYPOTHESES, references).score)
    assert ours.score > 10


def test_multi_bleu_without_a_match_or_without_words_is_0() -> None:
    assert run("multi-bleu", ["a b c"], [["a b c"]]).score == 0.0  # no n-gram of four words
    assert run("multi-bleu", [""], [["a b c"]]).score == 0.0
    assert run("multi-bleu", ["a"], [[""]]).score == 0.0


def test_multi_bleu_works_on_bytes_like_the_script() -> None:
    assert run("multi-bleu", ["A B C D"], [["a b c d"]], lowercase=True).score == pytest.approx(100)
    assert run("multi-bleu", ["Ä B C D E"], [["ä b c d e"]], lowercase=True).details["precision_1"] == pytest.approx(80)
    assert run("multi-bleu", ["a\u00a0b c d e"], [["a\u00a0b c d e"]]).details["hyp_length"] == 4


def test_rouge_by_hand() -> None:
    pytest.importorskip("rouge_score")
    found = run("rouge", ["the cat sat", "no"], [["the cat ran away", "no"]])
    # two of three words and two of four: F1 = 4/7; one pair of two and of three: 2/5; the second sentence has no pairs
    assert found.details == pytest.approx(
        {"rouge1": 50 * (4 / 7 + 1), "rouge2": 50 * (2 / 5), "rougeL": 50 * (4 / 7 + 1)}
    )
    assert found.score == found.details["rougeL"]
    best = run("rouge", ["the cat sat"], [["the cat ran away"], ["the cat sits"], ["x"]])
    assert best.details["rouge1"] == pytest.approx(100 * 2 / 3)
    assert run("rouge", ["Cats running"], [["cat runs"]]).score == 100.0  # the stemmer


def test_rouge_rejects_other_scripts() -> None:
    pytest.importorskip("rouge_score")
    with pytest.raises(DataError, match="ROUGE counts only a–z and 0–9, and the references contain none"):
        run("rouge", ["кіт"], [["кіт"]])


def test_rouge_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rouge_score.rouge_scorer", None)
    with pytest.raises(MissingExtraError, match=r"ROUGE needs an extra: pip install 'lamina\[rouge\]'"):
        run("rouge", ["a"], [["a"]])


def test_gleu_by_hand() -> None:
    source, reference = ["he go to a school now"], [["he goes to a school now"]]
    # copying: 5 right words less `go`; 3 right pairs less `he go`, `go to`; 2 less 2 triples, 1 less 2 quadruples
    copied = run("gleu", source, reference, source=source)
    assert copied.score == 0.0
    assert [round(copied.details[f"precision_{n}"], 3) for n in (1, 2, 3, 4)] == [66.667, 20.0, 0.0, 0.0]
    assert run("gleu", reference[0], reference, source=source).score == pytest.approx(100)


def test_gleu_penalises_unchanged_errors() -> None:
    source, reference, hypothesis = ["a b c d e x"], [["a b c d e f g"]], ["a b c d e x"]
    # words: 5 − 1 of 6; pairs: 4 − 1 of 5; triples: 3 − 1 of 4; quadruples: 2 − 1 of 3; 6 words for 7
    expected = 100 * math.exp(1 - 7 / 6) * (4 / 6 * 3 / 5 * 2 / 4 * 1 / 3) ** 0.25
    assert run("gleu", hypothesis, reference, source=source).score == pytest.approx(expected)


def test_gleu_without_errors_is_bleu() -> None:
    found = run("gleu", HYPOTHESES, REFERENCES[:1], source=REFERENCES[0])
    assert found.score == pytest.approx(run("multi-bleu", HYPOTHESES, REFERENCES[:1]).score)


def test_gleu_of_several_references_is_a_mean_over_draws() -> None:
    source, hypothesis = ["a b c d e"], ["a b c d e"]
    one = run("gleu", hypothesis, [["a b c d e"]], source=source).score
    other = run("gleu", hypothesis, [["a b c d e f"]], source=source).score
    both = run("gleu", hypothesis, [["a b c d e"], ["a b c d e f"]], source=source)
    share = (both.score - other) / (one - other)
    assert 0.4 < share < 0.6
    assert share * 500 == pytest.approx(round(share * 500))
    assert both.signature == "GLEU 2016|nrefs:2|case:mixed|tok:none|smooth:none|draws:500"


def test_gleu_needs_the_source() -> None:
    with pytest.raises(UsageError, match="give it with `source`"):
        run("gleu", ["a"], [["a"]])


@needs_shared
def test_gleu_of_jfleg_as_published() -> None:
    folder = SHARED / "data" / "jfleg"
    source = list(read_lines(folder / "dev.src.gz"))
    references = [list(read_lines(folder / f"dev.ref{number}.gz")) for number in range(4)]
    assert run("gleu", source, references, source=source).score == pytest.approx(38.21, abs=0.01)


def test_metric_names() -> None:
    assert check_names([]) == ["bleu", "chrf"]
    assert check_names(["ter, bleu", "ter"]) == ["ter", "bleu"]
    with pytest.raises(UsageError, match=r"Unknown metric `blue`. Did you mean `bleu`\? Metrics: bleu, chrf, ter"):
        check_names(["blue"])
    with pytest.raises(UsageError, match=r"m2 reads an \.m2 file as its reference, so it cannot be combined"):
        check_names(["bleu,m2"])


@pytest.mark.parametrize("name", [name for name in METRICS if name != "m2" and "rouge" not in name])
def test_lengths_must_match(name: str) -> None:
    with pytest.raises(DataError, match="The numbers of hypotheses and references differ: 1 and 2"):
        run(name, ["a"], [["a", "b"]], source=["a", "b"])
    with pytest.raises(DataError, match="Reference 2 has 1 line, but the first has 2"):
        run(name, ["a", "b"], [["a", "b"], ["a"]])
    with pytest.raises(DataError, match="The source has 1 line, but the first reference has 2"):
        run(name, ["a", "b"], [["a", "b"]], source=["a"])


@pytest.mark.parametrize(
    ("language", "tokenizer"),
    [("de", "13a"), (None, "13a"), ("zh", "zh"), ("zh_CN", "zh"), ("th", "char"), ("ja", "char"), ("JA-jp", "char")],
)
def test_bleu_tokenises_as_the_language_is_written(
    language: str | None, tokenizer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokenizers, "find_spec", lambda _: None)  # no MeCab
    assert tokenizers.language_tokenizer(language) == tokenizer
    monkeypatch.setattr(tokenizers, "find_spec", lambda name: name)
    assert tokenizers.language_tokenizer("ja") == "ja-mecab"


@pytest.mark.parametrize(
    ("lines", "rejected"),
    [
        (["猫が走る", "犬が寝る"], True),  # short, but without any space
        (["我们喜欢翻译系统 因为它们很有趣"] * 3, True),
        (["ภาษาไทยเขียนโดยไม่มีช่องว่างระหว่างคำ"], True),
        (["猫 が 走る", "犬 が 寝る", "はい"], False),  # tokenised
        (["너는 매일 책을 읽는다"], False),
        (["A dog runs.", "猫"], False),
    ],
)
def test_text_without_spaces_is_recognised(lines: list[str], rejected: bool) -> None:
    assert tokenizers.has_no_spaces([lines]) == rejected


def test_bleu_of_text_without_spaces_is_not_0() -> None:
    reference, output = "我们喜欢翻译系统因为它们很有趣", "我们喜欢翻译系统因为它很有趣"
    assert run("bleu", [output], [[reference]], language="zh").score > 50
