"""Details of a translation for the web page, for every published system."""

from __future__ import annotations

import pytest
import torch

from lamina.serving.details import describe_sentence
from lamina.serving.model_info import describe_model, is_language, task_of
from lamina.serving.words import join_pieces
from lamina.systems.published import SYSTEMS
from lamina.text.pipeline import pipeline_of_words
from lamina.text.vocabulary import Vocabularies
from lamina.translation.translator import Translator
from support import WORDS, small


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_system_is_described(system: str) -> None:
    model = small(system)
    translator = Translator([model], pipeline_of_words(Vocabularies(WORDS, WORDS)))
    source, tokens = [5, 6, 7, 2], [8, 9, 2]
    found = describe_sentence(translator, source, tokens)
    layers = model.attention(torch.tensor([source]), torch.tensor([[model.start_id, 8, 9]]))
    last = torch.stack(layers[-1]).mean(dim=(0, 2))[0]
    assert torch.allclose(torch.tensor(found["attention"]), last, atol=1e-3)
    log_probs = model.log_probs(torch.tensor([source]), torch.tensor([[model.start_id, 8, 9]]))[0]
    expected = log_probs[torch.arange(3), torch.tensor(tokens)].exp()
    assert torch.allclose(torch.tensor(found["probabilities"]), expected, atol=1e-3)
    assert [word["text"] for word in found["words"]] == [WORDS.symbols[8], WORDS.symbols[9]]
    assert (found["surface"] is not None) == (model.config.head.type == "surface")
    gated = "msc" in system
    assert (found["gates"] is not None) == gated
    if found["layer_weights"] is not None:
        assert len(found["layer_weights"]["weights"]) == 2
        assert all(abs(sum(row) - 1) < 0.01 for row in found["layer_weights"]["weights"])
    info = describe_model("name", translator)
    assert info["system"] in SYSTEMS


def test_tasks() -> None:
    assert task_of("en", "en") == "correction"
    assert task_of("en", "de") == task_of("source", "target") == "translation"
    assert task_of("body", "subject") == "summarization"
    assert is_language("pt-BR")
    assert not is_language("body")


def test_joining_pieces() -> None:
    assert join_pieces(["▁gro", "ße"]) == "große"
    assert join_pieces(["<0xE2>", "<0x82>", "<0xAC>"]) == "€"
    assert join_pieces(["gro@@", "ße"]) == "große"
