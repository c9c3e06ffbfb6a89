"""Published checkpoints: the release's recorded outputs, and an oracle for flags that were not recorded."""

from __future__ import annotations

import json
import os
import pickle
import sys
from argparse import Namespace
from collections import OrderedDict
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from release import FLAGS, Release, make_weights
from torch import Tensor

import lamina
from lamina.errors import DataError
from lamina.interop.fairseq import read_checkpoint
from lamina.recipe.decode import SearchSettings
from support import Searcher, pad, rows_of

FIXTURES = Path(__file__).parent / "fixtures"
NAMES = sorted(folder.name for folder in FIXTURES.iterdir())
WORDS = 70  # more than 50, where the release's pooling starts


def assert_parity(found: Tensor, reference: Tensor) -> None:
    error = (found - reference).abs() / reference.abs().clamp(min=1)
    assert float(error.max()) <= 1e-4


def load(folder: Path) -> Any:
    return lamina.load_fairseq(folder / "checkpoint_best.pt", folder / "dict.en.txt", folder / "dict.ro.txt")


@pytest.mark.parametrize("backend", ["torch", "engine"])
@pytest.mark.parametrize("name", NAMES)
def test_recorded_beam_search_of_the_release(name: str, backend: str) -> None:
    model, _ = load(FIXTURES / name)
    source = torch.from_numpy(np.load(FIXTURES / name / "expected.npz")["src"])
    found = Searcher(backend, model.eval()).search(source, SearchSettings(beam=4, max_length=(0.0, 20)))
    recorded = json.loads((FIXTURES / name / "beam4.json").read_text())
    for hypotheses, expected in zip(found, recorded, strict=True):
        assert [each.score for each in hypotheses] == pytest.approx([each["score"] for each in expected], abs=1e-4)
        for place, each in enumerate(hypotheses):
            alike = [other["tokens"] for other in expected if abs(other["score"] - expected[place]["score"]) < 1e-5]
            assert each.tokens in alike


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("left", [True, False], ids=["left", "right"])
def test_recorded_outputs_of_the_release(name: str, left: bool) -> None:
    model, vocabulary = load(FIXTURES / name)
    recorded = np.load(FIXTURES / name / "expected.npz")
    source, prefix = torch.from_numpy(recorded["src"]), torch.from_numpy(recorded["prev"])
    with torch.no_grad():
        found = model.log_probs(pad(rows_of(source), left=left), prefix)
    real = prefix != model.pad_id
    assert_parity(found[real], torch.from_numpy(recorded["lprobs"])[real])
    assert len(vocabulary.source) == model.config.source_vocab
    assert model.start_id == int(recorded["eos"])
    assert not model.training


@pytest.mark.parametrize("name", NAMES)
def test_recorded_outputs_of_the_release_on_the_engine(name: str) -> None:
    model, _ = load(FIXTURES / name)
    recorded = np.load(FIXTURES / name / "expected.npz")
    sources, prefixes = (rows_of(torch.from_numpy(recorded[part])) for part in ("src", "prev"))
    engine = Searcher("engine", model)
    for source, prefix, expected in zip(sources, prefixes, recorded["lprobs"], strict=True):
        assert_parity(engine.log_probs(source, prefix), torch.from_numpy(expected)[: len(prefix)])


@pytest.mark.parametrize("name", NAMES)
def test_the_oracle_agrees_with_the_release(name: str) -> None:
    arguments, weights = read_checkpoint(FIXTURES / name / "checkpoint_best.pt")
    recorded = np.load(FIXTURES / name / "expected.npz")
    release = Release(Namespace(**arguments), weights)
    for source, prefix, expected in zip(recorded["src"], recorded["prev"], recorded["lprobs"], strict=True):
        real = prefix != 1
        found = release.log_probs(torch.from_numpy(source[source != 1]), torch.from_numpy(prefix[real]))
        assert_parity(found, torch.from_numpy(expected[real]))


def write_checkpoint(folder: Path, changes: dict[str, Any]) -> Release:
    flags = Namespace(**{**FLAGS, **changes})
    weights = make_weights(flags, WORDS)
    torch.save({"args": flags, "model": weights}, folder / "checkpoint_best.pt")
    for language in ("en", "ro"):
        (folder / f"dict.{language}.txt").write_text("".join(f"w{n} 1\n" for n in range(WORDS - 4)))
    return Release(flags, weights)


PRE = {"encoder_normalize_before": True, "decoder_normalize_before": True}
MIX = {"layer_wise_attention": True, "transparent_attention": True}
UNTIED = {"share_all_embeddings": False, "share_decoder_input_output_embed": False}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"sf_mode": "soft", "sf_softmax_tau": 0.6},
        {"sf_mode": "postnorm", "sf_softmax_tau": 1.7},
        {"sf_mode": "soft", "sf_gate": 0.0},
        {"sf_gate": 0.0},
        {"sf_gate": None, "sf_linear": True},
        {"sf_linear": True, "sf_ffn": False},
        {"sf_attention_heads": 2},
        {"sf_idx": 0},
        {"sf_idx": 1, **PRE},
        {"surfacefusion": "mean"},
        {"surfacefusion": "max"},
        {"surfacefusion": "max", "sf_no_posedemb": False, "sf_idx": 0, "sf_attention_heads": 4},
        PRE,
        {**PRE, "layer_wise_attention": True},
        {"layer_wise_attention": True},
        {**PRE, **MIX},
        {**PRE, **MIX, "fine_grained_ta": True, "ta_source_embedding": True},
        {**PRE, **MIX, "ta_source_embedding": True, "surfacefusion": "mean"},
        MIX,
        {**MIX, "ta_source_embedding": True},
        {**MIX, "ta_source_embedding": True, "no_ta_embnorm": True},
        {**MIX, "ta_source_embedding": True, "ta_posedemb": True},
        {**MIX, "fine_grained_ta": True},
        {"transparent_attention": True, "ta_source_embedding": True},
        UNTIED,
        {"share_all_embeddings": False},
        {"sf_no_posedemb": False},
        {"encoder_layers": 4, "decoder_layers": 2, "sf_idx": 1, **MIX},
    ],
    ids=lambda changes: ",".join(f"{name}={value}" for name, value in changes.items()) or "published",
)
def test_other_flags(changes: dict[str, Any], tmp_path: Path) -> None:
    release = write_checkpoint(tmp_path, changes)
    model, _ = load(tmp_path)
    generator = torch.Generator().manual_seed(9)
    sources = [[*torch.randint(4, WORDS, (n,), generator=generator).tolist(), 2] for n in (4, 9, 1)]
    sources.append([5, 6, 2])  # no tokens for the release's pooling
    prefixes = [[2, *torch.randint(4, WORDS, (n,), generator=generator).tolist()] for n in (5, 3, 4, 1)]
    for left in (True, False):
        with torch.no_grad():
            found = model.log_probs(pad(sources, left=left, extra=1), pad(prefixes))
        for row, (source, prefix) in enumerate(zip(sources, prefixes, strict=True)):
            assert_parity(found[row, : len(prefix)], release.log_probs(torch.tensor(source), torch.tensor(prefix)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"encoder_learned_pos": True}, "`encoder_learned_pos` must be False, but is True instead."),
        ({"adaptive_softmax_cutoff": "1,2"}, "`adaptive_softmax_cutoff` must be None, but is '1,2' instead."),
        ({"addtional_source_output": "final"}, "`addtional_source_output` must be '', but is 'final' instead."),
        ({"activation_fn": "gelu"}, "`activation_fn` must be 'relu', but is 'gelu' instead."),
        ({"decoder_ffn_embed_dim": 32}, "`decoder_ffn_embed_dim` must equal `encoder_ffn_embed_dim` 24, but is 32"),
        ({"sf_mode": "soft_5"}, "`sf_mode` must be one of hard, soft, postnorm, but is 'soft_5' instead."),
        ({"surfacefusion": "sum"}, "`surfacefusion` must be one of att, mean, max, but is 'sum' instead."),
        ({"sf_idx": 3}, "`sf_idx` must be from 0 to 2, but is 3 instead."),
        ({"sf_idx": 5, "surfacefusion": "mean"}, "`sf_idx` must be from 0 to 2, but is 5 instead."),
        ({"sf_new_idea": 1}, "unknown flag `sf_new_idea`."),
        ({"ta_ffn": True}, "`ta_ffn` must be False, but is True instead."),
        ({"encoder_normalize_before": True}, "`decoder_normalize_before` must equal `encoder_normalize_before` True"),
        ({"layer_wise_attention": True, "encoder_layers": 4}, "bridge `layerwise` needs as many encoder as decoder"),
        ({"layer_wise_attention": True, "ta_source_embedding": True}, "`ta_source_embedding` requires `transparent"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_unsupported_flags_are_named(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    write_checkpoint(tmp_path, changes)
    with pytest.raises(DataError) as caught:
        load(tmp_path)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"encoder_learned_pos": True},
        {"decoder_learned_pos": True},
        {"no_token_positional_embeddings": True},
        {"no_scale_embedding": True},
        {"layernorm_embedding": True},
        {"adaptive_softmax_cutoff": "100"},
        {"adaptive_input": True},
        {"no_cross_attention": True},
        {"cross_self_attention": True},
        {"addtional_source_output": "final"},
        {"no_encoder_fnn": True},
        {"no_decoder_fnn": True},
        {"ta_ffn": True},
        {"no_decoder_final_norm": True},
        {"encoder_layers_to_keep": "0,1"},
        {"decoder_layers_to_keep": "0,1"},
        {"activation_fn": "gelu"},
        {"decoder_embed_dim": 8},
        {"decoder_output_dim": 8},
        {"decoder_attention_heads": 2},
        {"sf_mode": "postnorm_5"},
        {"sf_mode": "postnorm_v1"},
        {"sf_mode": None},
        {"sf_idx": None},
        {"ta_other": 1},
    ],
    ids=str,
)
def test_every_flag_that_must_be_neutral(changes: dict[str, Any], tmp_path: Path) -> None:
    write_checkpoint(tmp_path, {**FLAGS})
    arguments, weights = read_checkpoint(tmp_path / "checkpoint_best.pt")
    torch.save({"args": Namespace(**{**arguments, **changes}), "model": weights}, tmp_path / "checkpoint_best.pt")
    with pytest.raises(DataError, match=f"cannot be imported: (unknown flag )?`{next(iter(changes))}`"):
        load(tmp_path)


def test_absent_flags_have_the_defaults_of_the_release(tmp_path: Path) -> None:
    """`sf_ffn` and `sf_no_posedemb` are on, the gate is learned."""
    write_checkpoint(tmp_path, {"sf_gate": 0.0})
    arguments, weights = read_checkpoint(tmp_path / "checkpoint_best.pt")
    for name in ("sf_ffn", "sf_no_posedemb", "sf_gate", "sf_linear", "sf_attention_heads", "sf_softmax_tau"):
        del arguments[name]
    torch.save({"args": Namespace(**arguments), "model": weights}, tmp_path / "checkpoint_best.pt")
    config = load(tmp_path)[0].config
    assert (config.head.ffn, config.head.gate, config.head.linear, config.head.reader_heads) == (
        True,
        "learned",
        False,
        1,
    )
    assert not config.surface_positions


def test_an_untrained_final_norm_stays_frozen(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, {**PRE, **MIX})
    model, _ = load(tmp_path)
    assert not model.encoder.final_norm.weight.requires_grad
    assert model.decoder.final_norm.weight.requires_grad


@pytest.mark.parametrize("name", ["decoder.fc1.weight", "decoder.ta_weight", "decoder.embed_out"])
def test_weights_of_unused_parts_are_errors(name: str, tmp_path: Path) -> None:
    write_checkpoint(tmp_path, {"sf_ffn": False})
    rewrite(tmp_path, lambda weights: weights.update({name: torch.zeros(3)}))
    with pytest.raises(DataError, match=f"unexpected weight {name}"):
        load(tmp_path)


def test_all_problems_are_reported_together(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, {"sf_mode": "soft_5", "ta_ffn": True})
    with pytest.raises(DataError) as caught:
        load(tmp_path)
    assert len(str(caught.value).splitlines()) == 2


def rewrite(folder: Path, change: Any) -> None:
    arguments, weights = read_checkpoint(folder / "checkpoint_best.pt")
    change(weights)
    torch.save({"args": Namespace(**arguments), "model": weights}, folder / "checkpoint_best.pt")


def test_an_unexpected_weight_is_an_error(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, {})
    rewrite(tmp_path, lambda weights: weights.update({"decoder.layer_positions.weight": torch.zeros(3, 16)}))
    with pytest.raises(DataError, match=r"unexpected weight decoder\.layer_positions\.weight \(1 in total"):
        load(tmp_path)


def test_a_missing_weight_is_an_error(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, {})
    rewrite(tmp_path, lambda weights: weights.pop("decoder.layers.1.fc1.bias"))
    with pytest.raises(DataError, match=r"weight decoder\.layers\.1\.fc1\.bias is missing \(1 in total"):
        load(tmp_path)


def test_a_dictionary_of_another_size_is_an_error(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, {})
    for language in ("en", "ro"):
        (tmp_path / f"dict.{language}.txt").write_text("a 1\nb 1\n")
    with pytest.raises(DataError, match=r"dict\.en\.txt: has 6 entries, .* the checkpoint's encoder has 70"):
        load(tmp_path)


def test_dictionaries_in_another_order_are_an_error(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, {})
    path = tmp_path / "dict.en.txt"
    path.write_text("".join(reversed(path.read_text().splitlines(keepends=True))))
    with pytest.raises(DataError, match="differ, but the checkpoint has one vocabulary for both sides"):
        load(tmp_path)


def test_pickled_training_meters_are_ignored(tmp_path: Path) -> None:
    """fairseq 0.9 pickles its own objects into every checkpoint."""
    release = write_checkpoint(tmp_path, {})
    module = ModuleType("fairseq.meters")
    meter = type("AverageMeter", (), {"__module__": "fairseq.meters"})
    module.AverageMeter = meter
    sys.modules.update({"fairseq": ModuleType("fairseq"), "fairseq.meters": module})
    try:
        average = meter()
        average.val, average.sum = 0.5, 3
        state = {"train_meters": OrderedDict(train_loss=average), "epoch": 3}
        content = {"args": release.flags, "model": release.weights, "extra_state": state}
        torch.save(content, tmp_path / "checkpoint_best.pt")
    finally:
        del sys.modules["fairseq"], sys.modules["fairseq.meters"]
    model, _ = load(tmp_path)
    assert model.config.head.gate == 0.8


def test_dropout_rates_are_imported(tmp_path: Path) -> None:
    rates = {"dropout": 0.3, "attention_dropout": 0.2, "activation_dropout": 0.1, "ta_dropout": 0.4}
    write_checkpoint(tmp_path, {**MIX, **rates, "ta_dropconnect": True})
    config = load(tmp_path)[0].config
    assert (config.dropout, config.attention_dropout, config.activation_dropout) == (0.3, 0.2, 0.1)
    assert (config.bridge.dropconnect, config.bridge.weight_dropout) == (0.4, 0.0)


class Boom:
    def __reduce__(self) -> Any:
        return (os.mkdir, ("executed",))


@pytest.mark.parametrize("writer", [torch.save, lambda content, path: path.write_bytes(pickle.dumps(content))])
def test_pickled_code_is_not_executed(writer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_checkpoint(tmp_path, {})
    writer({"args": Boom(), "model": {}}, tmp_path / "checkpoint_best.pt")
    with pytest.raises(DataError, match=r"checkpoint_best\.pt: (contains a pickled `posix.mkdir`|not a checkpoint)"):
        load(tmp_path)
    assert not Path("executed").exists()


@pytest.mark.parametrize("content", [b"", b"not a checkpoint at all"])
def test_a_damaged_checkpoint_is_a_clear_error(content: bytes, tmp_path: Path) -> None:
    write_checkpoint(tmp_path, {})
    (tmp_path / "checkpoint_best.pt").write_bytes(content)
    with pytest.raises(DataError, match=r"checkpoint_best\.pt"):
        load(tmp_path)


EMBEDDING = "decoder.embed_tokens.weight"


@pytest.mark.parametrize(
    ("flags", "weights", "message"),
    [
        ({"encoder_layers": 10**9}, {}, "encoder.layers: must be less than or equal to 1000, but is 1000000000"),
        ({"decoder_layers": "six"}, {}, "`decoder_layers` must be a number, but is 'six' instead."),
        ({"surfacefusion": ["att"]}, {}, "damaged ("),
        ({}, {EMBEDDING: torch.tensor(1.0)}, f"{EMBEDDING} is not a numeric tensor."),
        ({}, {EMBEDDING: 7}, f"{EMBEDDING} is not a numeric tensor."),
        ({}, {"decoder.layers.0.fc1.bias": torch.tensor(1.0)}, "fc1.bias is not a numeric tensor."),
        ({}, {7: torch.zeros(3)}, "unexpected weight 7 (1 in total)."),
    ],
    ids=["billion layers", "layers in words", "a list", "0-d embedding", "embedding of a number", "0-d", "integer key"],
)
def test_odd_content_is_named(flags: dict[str, Any], weights: dict[Any, Any], message: str, tmp_path: Path) -> None:
    write_checkpoint(tmp_path, {})
    path = tmp_path / "checkpoint_best.pt"
    before, there = read_checkpoint(path)
    torch.save({"args": Namespace(**{**before, **flags}), "model": {**there, **weights}}, path)
    with pytest.raises(DataError) as caught:
        load(tmp_path)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)


def test_a_plain_fairseq_transformer(tmp_path: Path) -> None:
    """A checkpoint of unmodified fairseq has none of the release's flags or weights."""
    write_checkpoint(tmp_path, {})
    arguments, weights = read_checkpoint(tmp_path / "checkpoint_best.pt")
    own = ("sf_", "ta_", "surfacefusion", "transparent", "fine_grained", "no_ta")
    plain = {name: value for name, value in arguments.items() if not name.startswith(own)}
    extra = ("decoder.sf_attn", "decoder.tgt_out", "decoder.src_out", "decoder.meanmax", "decoder.fc")
    kept = {name: weight for name, weight in weights.items() if not name.startswith(extra)}
    torch.save({"args": Namespace(**plain), "model": kept}, tmp_path / "checkpoint_best.pt")
    model, _ = load(tmp_path)
    assert (model.config.encoder.type, model.config.bridge.type, model.config.head.type) == ("stack", "top", "softmax")
