"""Exports to CTranslate2 compute the same as Lamina, and unsupported parts are rejected by name."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from lamina.errors import DataError, UsageError
from lamina.interop.ctranslate2 import POSITIONS, export_ctranslate2
from lamina.model.seq2seq import Seq2Seq
from lamina.store.model_folder import write_model_folder
from lamina.systems.build import build
from lamina.systems.published import SYSTEMS
from lamina.text.pipeline import TextPipeline, make_pipeline, pipeline_of_words
from lamina.text.vocabulary import EOS, SPECIALS, Vocabularies, Vocabulary
from support import pad, run_lamina, scramble, small

ctranslate2 = pytest.importorskip("ctranslate2")

ODD = ('"', "\\", "a@@", "▁b", "<0x0A>", "\u3000", "\u2028", "\x85", "\r", "é", "𝄞", "<blank>", "￨", "\0")
SOURCE = Vocabulary((*SPECIALS, *ODD, *(f"w{n}" for n in range(19))))
TARGET = Vocabulary((*SPECIALS, *(f"z{n}" for n in range(19)), *ODD))
SENTENCES = [[4, 5, 6, 7, 8, 9, 10], [11, 12], [13, 14, 15, 16, 17, 20, 21, 22, 3, 23], [24]]


def words(source: Vocabulary = SOURCE, target: Vocabulary = SOURCE) -> TextPipeline:
    files = {"vocabulary.source.txt": source.text().encode(), "vocabulary.target.txt": target.text().encode()}
    return make_pipeline("none", ("en", "de"), False, files)


def make(depths: tuple[int, int] = (2, 2), **own: Any) -> Seq2Seq:
    torch.manual_seed(1)
    sizes = {"d_model": 32, "ffn_size": 48, "heads": 4, "dropout": 0.0}
    layers = {"encoder": {"layers": depths[0]}, "decoder": {"layers": depths[1]}}
    return scramble(build(size="tiny", vocab_size=(len(SOURCE), len(SOURCE)), **sizes, **layers, **own).eval())


def translator(model: Seq2Seq, out: Path, text: TextPipeline | None = None) -> Any:
    export_ctranslate2(model, words() if text is None else text, out)
    return ctranslate2.Translator(str(out), compute_type="float32", intra_threads=1)


def log_probs(model: Seq2Seq, sources: list[list[int]], targets: list[list[int]]) -> list[list[float]]:
    """Log-probabilities of every target token and of eos."""
    full = [[*target, EOS] for target in targets]
    prefixes = pad([[model.start_id, *target] for target in targets])
    with torch.no_grad():
        scores_BTV = model.log_probs(pad([[*source, EOS] for source in sources]), prefixes)
    return [scores_BTV[row, range(len(ids)), ids].tolist() for row, ids in enumerate(full)]


def greedy(model: Seq2Seq, source: list[int], longest: int = 30) -> list[int]:
    written: list[int] = []
    while len(written) < longest and EOS not in written:
        prefix = torch.tensor([[model.start_id, *written]])
        with torch.no_grad():
            written.append(int(model.log_probs(torch.tensor([[*source, EOS]]), prefix)[0, -1].argmax()))
    return written


def symbols(vocabulary: Vocabulary, rows: list[list[int]]) -> list[list[str]]:
    return [[vocabulary.symbols[index] for index in row] for row in rows]


CHOICES: dict[str, dict[str, Any]] = {
    "pre": {"norm": "pre"},
    "post": {"norm": "post"},
    "pre-separate": {"norm": "pre", "share_embeddings": "none"},
    "post-separate": {"norm": "post", "share_embeddings": "none"},
    "pre-decoder-shared": {"norm": "pre", "share_embeddings": "decoder"},
    "deep-encoder": {"norm": "pre", "depths": (7, 1)},
    "deep-decoder": {"norm": "post", "depths": (1, 3)},
    "imported": {"norm": "post", "start_id": EOS, "first_position": 2},
    "imported-pre": {"norm": "pre", "encoder": {"layers": 2, "frozen_final_norm": True}, "first_position": 2},
}


def choose(name: str) -> Seq2Seq:
    own = dict(CHOICES[name])
    if "encoder" in own:
        return scramble(build(size="tiny", vocab_size=len(SOURCE), d_model=32, heads=4, **own).eval())
    return make(**own)


@pytest.mark.parametrize("name", CHOICES)
def test_log_probabilities_match(name: str, tmp_path: Path) -> None:
    model = choose(name)
    targets = [[7, 9, 4], [30, 31, 32, 33, 34], [], [3, 12]]
    results = translator(model, tmp_path / "out").score_batch(symbols(SOURCE, SENTENCES), symbols(SOURCE, targets))
    for result, expected in zip(results, log_probs(model, SENTENCES, targets), strict=True):
        assert result.log_probs == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("name", ["pre", "post-separate", "imported"])
def test_greedy_output_matches(name: str, tmp_path: Path) -> None:
    model = choose(name)
    results = translator(model, tmp_path / "out").translate_batch(
        symbols(SOURCE, SENTENCES),
        beam_size=1,
        min_decoding_length=0,
        max_decoding_length=30,
        return_end_token=True,
    )
    ours = [greedy(model, source) for source in SENTENCES]
    assert [result.hypotheses[0] for result in results] == symbols(SOURCE, ours)


def test_two_vocabularies(tmp_path: Path) -> None:
    model = make(share_embeddings="none")
    results = translator(model, tmp_path / "out", words(SOURCE, TARGET)).score_batch(
        symbols(SOURCE, SENTENCES), symbols(TARGET, SENTENCES)
    )
    for result, expected in zip(results, log_probs(model, SENTENCES, SENTENCES), strict=True):
        assert result.log_probs == pytest.approx(expected, abs=1e-4)
    assert (tmp_path / "out" / "target_vocabulary.json").exists()


def test_the_length_penalty_counts_eos(tmp_path: Path) -> None:
    model = make(norm="post")
    with torch.no_grad():  # make eos likely; a random model would hardly ever end
        model.head.weight_VD[EOS] *= 3
    results = translator(model, tmp_path / "out").translate_batch(
        symbols(SOURCE, SENTENCES),
        beam_size=5,
        length_penalty=1,
        min_decoding_length=0,  # 1 removes eos from the first step's softmax
        return_end_token=True,
        return_scores=True,
    )
    ended = [(source, r) for source, r in zip(SENTENCES, results, strict=True) if r.hypotheses[0][-1] == "</s>"]
    assert ended
    for source, result in ended:
        target = [SOURCE.ids[symbol] for symbol in result.hypotheses[0][:-1]]
        (expected,) = log_probs(model, [source], [target])
        assert result.scores[0] == pytest.approx(sum(expected) / len(expected), abs=1e-4)


def test_long_sources_have_positions(tmp_path: Path) -> None:
    model = make()
    sources = [[4 + n % 20 for n in range(POSITIONS - 1)]]
    (result,) = translator(model, tmp_path / "out").score_batch(
        symbols(SOURCE, sources), symbols(SOURCE, [[5, 6]]), max_input_length=0
    )
    assert result.log_probs == pytest.approx(log_probs(model, sources, [[5, 6]])[0], abs=1e-4)


def test_int8_loads(tmp_path: Path) -> None:
    export_ctranslate2(make(), words(), tmp_path / "out")
    quantised = ctranslate2.Translator(str(tmp_path / "out"), compute_type="int8", intra_threads=1)
    assert len(quantised.translate_batch(symbols(SOURCE, SENTENCES), max_decoding_length=5)) == len(SENTENCES)


REFUSED = {
    "transparent": ["bridge `transparent`"],
    "fine-grained": ["bridge `fine_grained`"],
    "layerwise": ["bridge `layerwise`"],
    "aggregation": ["bridge `aggregation`"],
    "coordination": ["bridge `layerwise`", "decoder attention `mixed`"],
    "dlcl": ["encoder `dlcl`", "decoder wiring `dlcl`"],
    "block-scale": ["bridge `blocks`"],
    "msc": ["encoder `msc`", "bridge `collaborative`"],
    "surface-fusion": ["head `surface`"],
    "average-attention": ["decoder attention `average`"],
    "merged-attention": ["decoder attention `merged`"],
    "msc-surface": ["encoder `msc`", "bridge `collaborative`", "head `surface`"],
    "pointer-generator": ["head `pointer`"],
    "hierarchical": ["encoder `hierarchical`"],
    "depth-growing": ["encoder `grown`", "bridge `grown`"],
}
SMALL = Vocabulary(SOURCE.symbols[:23])


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_system_exports_or_is_rejected_by_its_sockets(system: str, tmp_path: Path) -> None:
    model, text = small(system), words(SMALL, SMALL)
    if system not in REFUSED:
        translator(model, tmp_path / "out", text)
        return
    with pytest.raises(UsageError) as refusal:
        export_ctranslate2(model, text, tmp_path / "out")
    assert re.findall(r"(?:support|or) ([a-z ]+ `[a-z_]+`) \(only", str(refusal.value)) == REFUSED[system]
    assert not list(tmp_path.iterdir())


def test_the_error_names_all_unsupported_parts(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refusal:
        export_ctranslate2(small("msc-surface"), words(SMALL, SMALL), tmp_path / "out")
    assert str(refusal.value) == (
        "CTranslate2 does not support encoder `msc` (only `stack`) or bridge `collaborative` (only `top`) or "
        "head `surface` (only `softmax`). ONNX does: `lamina export --to onnx`."
    )


def test_an_existing_folder_is_not_overwritten(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="already exists; choose another path"):
        export_ctranslate2(make(), words(), tmp_path)


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DataError, match="cannot be written"):
        export_ctranslate2(make(), words(), tmp_path / "file" / "out")


def test_another_models_vocabulary_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"source vocabulary must have 37 entries to match the model, but has 23\."):
        export_ctranslate2(make(), words(SMALL, SMALL), tmp_path / "out")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run folder with a model that tends to end soon."""
    model = make(norm="post")
    with torch.no_grad():
        model.decoder.layers[-1].feed_forward_residual.norm.bias.add_(model.head.weight_VD[EOS] * 20)
    write_model_folder(tmp_path / "run" / "model", model, words(), "Made by a test.")
    return tmp_path / "run"


def test_the_command(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out"
    result = run_lamina("export", run, "--to", "ctranslate2", "--out", out)
    assert result == (0, f"{out}: {run} exported to ctranslate2\n", f"Next: cat {out / 'README.md'}\n")
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["out"]
    assert sorted(path.name for path in (tmp_path / "deep" / "out").iterdir()) == [
        "README.md",
        "config.json",
        "model.bin",
        "shared_vocabulary.json",
        "text.json",
        "vocabulary.source.txt",
        "vocabulary.target.txt",
    ]


def test_the_model_cards_example_works(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_lamina("export", run, "--to", "ctranslate2", "--out", tmp_path / "out")
    (code,) = re.findall(r"```python\n(.*?)```", (tmp_path / "out" / "README.md").read_text(), flags=re.DOTALL)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(code, names)
    assert names["tokens"] == [["<unk>"] * 6]
    (hypothesis,) = names["results"][0].hypotheses
    assert capsys.readouterr().out == " ".join(s for s in hypothesis if s != "</s>") + "\n"


def test_the_model_cards_example_processes_documents_as_in_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export_ctranslate2(make(), words().for_documents(True, 6), tmp_path / "out")
    (code,) = re.findall(r"```python\n(.*?)```", (tmp_path / "out" / "README.md").read_text(), flags=re.DOTALL)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(code.replace("A man plays the guitar .", "A man ⏎ plays the guitar ."), names)
    assert names["tokens"] == [["<unk>", "<unk>", "<s>", "<unk>", "<unk>"]]


def test_an_imported_model_has_vocabularies_only(tmp_path: Path) -> None:
    text = pipeline_of_words(Vocabularies(SOURCE, TARGET))
    write_model_folder(tmp_path / "model", make(start_id=EOS), text, "Made by a test.")
    result = run_lamina("export", tmp_path / "model", "--to", "ctranslate2", "--out", tmp_path / "out")
    assert result.returncode == 0, result.stderr
    assert TextPipeline.load(tmp_path / "out").target.vocabulary == TARGET


def test_lamina_does_not_open_an_export(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run_lamina("export", run, "--to", "ctranslate2", "--out", out)
    refusal = f"lamina: {out}: is a CTranslate2 model; open it with ctranslate2.Translator.\n"
    assert run_lamina("translate", out) == (3, "", refusal)
    (tmp_path / "a").write_text("A dog.\n")
    assert run_lamina("eval", out, "--test", tmp_path / "a", tmp_path / "a") == (3, "", refusal)


def test_an_unsupported_model_exits_with_2(tmp_path: Path) -> None:
    write_model_folder(tmp_path / "model", small("surface-fusion"), words(SMALL, SMALL), "Made by a test.")
    result = run_lamina("export", tmp_path / "model", "--to", "ctranslate2", "--out", tmp_path / "out")
    assert result == (
        2,
        "",
        "lamina: CTranslate2 does not support head `surface` (only `softmax`). ONNX does: `lamina export --to onnx`.\n",
    )


def test_the_extra_is_named(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.partition(".")[0] == "ctranslate2"]:
        monkeypatch.setitem(sys.modules, module, None)
    result = run_lamina("export", run, "--to", "ctranslate2", "--out", tmp_path / "out")
    assert result == (5, "", "lamina: The format of CTranslate2 needs an extra: pip install 'lamina[ctranslate2]'\n")
