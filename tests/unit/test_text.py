"""Encoding and decoding of text, unchanged by saving and loading."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.errors import DataError, UsageError
from lamina.text.normalise import normalise
from lamina.text.pipeline import TextPipeline, make_pipeline
from lamina.text.subwords import SentencePiece, count_vocabulary, learn_bpe, learn_sentencepiece
from lamina.text.vocabulary import EOS, UNK

TEXT = [
    "A man plays the guitar , while the other man watches .",
    "Ein Mann spielt Gitarre , während der andere Mann zusieht .",
    "Two dogs run across the green field .",
    "Zwei Hunde rennen über das grüne Feld .",
] * 5
PIECES = learn_sentencepiece(TEXT, 400)


def words() -> Counter[str]:
    return Counter(word for line in TEXT for word in line.split())


def pipelines() -> dict[str, TextPipeline]:
    codes = learn_bpe(words(), 60)
    bpe = make_pipeline("bpe", ("en", "de"), False, {"bpe.codes": codes.encode(), **vocabularies(codes)})
    moses = make_pipeline("bpe", ("en", "de"), True, bpe.files)
    plain = make_pipeline("none", ("en", "de"), False, vocabularies(None))
    pieces = make_pipeline("sentencepiece", ("en", "de"), False, {"subwords.model": PIECES})
    return {"bpe": bpe, "moses": moses, "none": plain, "sentencepiece": pieces}


def vocabularies(codes: str | None) -> dict[str, bytes]:
    from lamina.corpus.prepare import count_pieces
    from lamina.text.subwords import read_codes

    counts = words() if codes is None else count_pieces(words(), read_codes(codes))
    text = count_vocabulary(counts, None).text().encode()
    return {"vocabulary.source.txt": text, "vocabulary.target.txt": text}


PIPELINES = pipelines()


def test_lowercase() -> None:
    """The subword model folds case itself."""
    pieces = learn_sentencepiece(TEXT, 400, lowercase=True)
    side = make_pipeline("sentencepiece", ("en", "de"), False, {"subwords.model": pieces}).source
    shout, plain = side.encode(["ZWEI HUNDE rennen ÜBER das grüne Feld .", "zwei hunde rennen über das grüne feld ."])
    assert shout == plain
    assert side.decode(shout) == "zwei hunde rennen über das grüne feld ."


@pytest.mark.parametrize("name", PIPELINES)
def test_round_trip(name: str) -> None:
    pipeline = PIPELINES[name]
    for line in TEXT[:4]:
        given = pipeline.source.tokeniser.detokenise(line) if name == "moses" else line
        (ids,) = pipeline.source.encode([given])
        assert ids[-1] == EOS
        assert UNK not in ids
        assert pipeline.source.decode(ids) == given


@pytest.mark.parametrize("name", PIPELINES)
def test_saving_and_loading_changes_nothing(name: str, tmp_path: Path) -> None:
    pipeline = PIPELINES[name]
    pipeline.save(tmp_path)
    loaded = TextPipeline.load(tmp_path)
    assert loaded.kind == pipeline.kind
    assert loaded.target.encode(TEXT) == pipeline.target.encode(TEXT)
    assert loaded.target.vocabulary == pipeline.target.vocabulary
    assert [path.name for path in tmp_path.iterdir()].count("text.json") == 1


@given(st.text())
def test_sentencepiece_restores_any_text(text: str) -> None:
    pipeline = PIPELINES["sentencepiece"]
    (ids,) = pipeline.source.encode([text])
    surrogate_free = text.encode("utf-8", "ignore").decode("utf-8")
    if surrogate_free == text and "\u2581" not in text:  # ▁ is SentencePiece's space symbol
        assert pipeline.source.decode(ids) == normalise(text)


@given(st.text())
def test_normalising_is_idempotent(text: str) -> None:
    once = normalise(text)
    assert normalise(once) == once
    assert "\n" not in once
    assert "  " not in once


def test_an_empty_line_is_encoded_as_eos() -> None:
    for pipeline in PIPELINES.values():
        assert pipeline.source.encode([""]) == [[EOS]]
        assert pipeline.source.decode([EOS]) == ""


def test_learning_twice_gives_the_same_model() -> None:
    assert learn_sentencepiece(TEXT, 400) == PIECES


def test_frequent_words_are_whole_pieces() -> None:
    """Fails with SentencePiece 0.2.3, which splits them into characters."""
    topics = ("budget", "roof", "contract", "trip", "garden", "exam")
    lines = [f"The {topic} is due on day {day}." for topic in topics for day in range(1, 31)]
    subwords = SentencePiece(learn_sentencepiece(lines, 400))
    (ids,) = subwords.encode(["The garden is due on day 29."])
    pieces = [subwords.vocabulary.symbols[token] for token in ids]
    assert pieces[:6] == ["▁The", "▁garden", "▁is", "▁due", "▁on", "▁day"]


def test_the_vocabulary_size_is_an_upper_limit() -> None:
    assert len(make_pipeline("sentencepiece", ("a", "b"), False, {"subwords.model": PIECES}).source.vocabulary) < 400
    with pytest.raises(UsageError, match="`vocab_size` must be at least 294, to cover the characters of the text"):
        learn_sentencepiece(TEXT, 100)
    assert len(count_vocabulary(words(), 10)) == 10


def test_a_damaged_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"text\.json: not found"):
        TextPipeline.load(tmp_path)
    PIPELINES["bpe"].save(tmp_path)
    (tmp_path / "bpe.codes").unlink()
    with pytest.raises(DataError, match=r"bpe\.codes is missing"):
        TextPipeline.load(tmp_path)
