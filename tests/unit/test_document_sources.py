"""Documents as sources: sentence splitting, boundary ids, truncation, and trivial baselines."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina.errors import UsageError
from lamina.scoring.baselines import run_baseline
from lamina.text.pipeline import TextPipeline, pipeline_of_words
from lamina.text.sentences import LINE_BREAK, split_sentences
from lamina.text.vocabulary import BOS, EOS, Vocabularies
from support import WORDS


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        (
            "Mr. Smith met Dr. J. Doe at 9 a.m. Monday. He left.",
            ["Mr. Smith met Dr. J. Doe at 9 a.m. Monday.", "He left."],
        ),
        ('He said "Go." She went.', ['He said "Go."', "She went."]),
        ("It costs 3.50 dollars. ok", ["It costs 3.50 dollars. ok"]),
        (f"Hi {LINE_BREAK} there {LINE_BREAK}", ["Hi", "there"]),
        ("Перше речення. Друге.", ["Перше речення.", "Друге."]),
        ("word", ["word"]),
        ("", []),
    ],
)
def test_sentences(text: str, sentences: list[str]) -> None:
    assert split_sentences(text) == sentences


def words() -> TextPipeline:
    return pipeline_of_words(Vocabularies(WORDS, WORDS))


def test_boundaries_are_between_sentences_and_survive_saving(tmp_path: Path) -> None:
    text = words().for_documents(sentences=True, longest=4)
    text.save(tmp_path)
    loaded = TextPipeline.load(tmp_path)
    plain = words().source.encode(["w1 w2", "w3", ""])
    found = loaded.source.encode([f"w1 w2 {LINE_BREAK} w3", "w3", ""])
    assert found == [[*plain[0][:-1], BOS, *plain[1]], plain[1], [EOS]]
    assert loaded.source.truncate(found[0]) == [*found[0][:3], EOS]
    assert loaded.source.truncate(found[1]) == found[1]
    assert not loaded.target.sentences


def test_baselines() -> None:
    document = f"A first one. A second one. {LINE_BREAK} A third one. A fourth."
    assert run_baseline("lead-3", [document, ""]) == ["A first one. A second one. A third one.", ""]
    assert run_baseline("copy", [document]) == ["A first one. A second one. A third one. A fourth."]
    with pytest.raises(UsageError, match="Unknown baseline `lead-0`: use `copy` or `lead-K`"):
        run_baseline("lead-0", [])
