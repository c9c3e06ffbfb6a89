"""Import of Marian checkpoints in Hugging Face format: the same logits, and full use as a Lamina model."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from lamina.demo.grammar import write_demo
from lamina.store.model_folder import load_model_folder
from lamina.text.subwords import learn_sentencepiece
from lamina.translation import load
from support import run_lamina

transformers = pytest.importorskip("transformers")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint with random weights, written by transformers, and its import."""
    folder = tmp_path_factory.mktemp("marian")
    write_demo(folder, train=300, valid=40, test=20)
    lines = [line for side in ("en", "de") for line in (folder / f"train.{side}").read_text().splitlines()]
    out = folder / "opus"
    out.mkdir()
    for side in ("source", "target"):
        (out / f"{side}.spm").write_bytes(learn_sentencepiece(lines, 400))
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor(model_file=str(out / "source.spm"))
    pieces = [processor.id_to_piece(index) for index in range(4, processor.get_piece_size())]
    ids = {symbol: index for index, symbol in enumerate(("</s>", "<unk>", *reversed(pieces), ">>fr<<", "<pad>"))}
    (out / "vocab.json").write_text(json.dumps(ids))
    (out / "tokenizer_config.json").write_text(json.dumps({"source_lang": "en", "target_lang": "de"}))
    torch.manual_seed(2)
    config = transformers.MarianConfig(
        vocab_size=len(ids),
        d_model=32,
        encoder_layers=3,
        decoder_layers=2,
        encoder_ffn_dim=48,
        decoder_ffn_dim=48,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        activation_function="swish",
        scale_embedding=True,
        max_position_embeddings=128,
        pad_token_id=ids["<pad>"],
        eos_token_id=0,
        decoder_start_token_id=ids["<pad>"],
        forced_eos_token_id=None,
    )
    model = transformers.MarianMTModel(config).eval()
    with torch.no_grad():
        for parameter in [each for each in model.parameters() if each.requires_grad]:
            parameter.add_(torch.randn_like(parameter) * 0.1)
        model.final_logits_bias.normal_()
    model.save_pretrained(out)
    result = run_lamina("import-marian", out, "--out", folder / "imported")
    assert result.returncode == 0, result.stderr
    return folder


def log_probs(folder: Path, symbols: list[list[str]], prefix: list[list[str]]) -> Any:
    """Log-probabilities of transformers, with its padding."""
    model = transformers.MarianMTModel.from_pretrained(folder).eval()
    ids = json.loads((folder / "vocab.json").read_text())
    longest = max(map(len, symbols))
    source = torch.tensor([[ids[each] for each in [*row, *["<pad>"] * (longest - len(row))]] for row in symbols])
    target = torch.tensor([[ids[each] for each in row] for row in prefix])
    mask = (source != ids["<pad>"]).long()
    with torch.no_grad():
        return model(source, attention_mask=mask, decoder_input_ids=target).logits.log_softmax(dim=-1), ids


def compare(folder: Path, imported: Path) -> None:
    loaded = load_model_folder(imported)
    lines = ["The dog sees a man.", ">>fr<< Two women sing.", "A"]
    sources = [loaded.text.source.vocabulary.decode(row) for row in loaded.text.source.encode(lines)]
    prefix = [["<pad>", *sources[0][:4]], ["<pad>", *sources[1][:4]], ["<pad>", *sources[0][1:5]]]
    theirs, ids = log_probs(folder, [[*row, "</s>"] for row in sources], prefix)
    vocabulary = loaded.text.source.vocabulary
    rows = [[vocabulary.ids[each] for each in [*row, "</s>"]] for row in sources]
    longest = max(map(len, rows))
    source_BS = torch.tensor([[*row, *[1] * (longest - len(row))] for row in rows])
    prefix_BT = torch.tensor([[vocabulary.ids[each] for each in row] for row in prefix])
    with torch.no_grad():
        ours = loaded.model.log_probs(source_BS, prefix_BT)
    order = [vocabulary.ids[symbol] for symbol in sorted(ids, key=ids.__getitem__) if symbol in vocabulary.ids]
    columns = [ids[symbol] for symbol in sorted(ids, key=ids.__getitem__)]
    torch.testing.assert_close(ours[..., order], theirs[..., columns], rtol=0, atol=1e-4)


def test_a_checkpoint_is_not_opened_by_mistake(place: Path) -> None:
    assert run_lamina("translate", place / "opus", stdin="A dog.\n") == (
        3,
        "",
        f"lamina: {place / 'opus'}: is a model for Hugging Face Transformers (marian); `lamina import-marian` turns "
        "it into a model folder.\n",
    )


def test_logits_match_transformers(place: Path) -> None:
    compare(place / "opus", place / "imported")


def test_tokens_match_transformers(place: Path) -> None:
    tokenizer = transformers.MarianTokenizer.from_pretrained(place / "opus")
    text = load_model_folder(place / "imported").text
    for line in ("The dog sees a man.", ">>fr<< Two women sing.", "café 😀", "A, b."):
        expected = tokenizer.convert_ids_to_tokens(tokenizer(line).input_ids)
        assert [text.source.vocabulary.symbols[index] for index in text.source.encode([line])[0]] == expected


def test_beam_search_matches_transformers(place: Path) -> None:
    lines = (place / "test.en").read_text().splitlines()
    model = transformers.MarianMTModel.from_pretrained(place / "opus").eval()
    tokenizer = transformers.MarianTokenizer.from_pretrained(place / "opus")
    batch = tokenizer(lines, return_tensors="pt", padding=True)
    limit, pad = 12, model.config.pad_token_id
    with torch.no_grad():
        theirs = model.generate(
            **batch, num_beams=4, early_stopping=True, max_new_tokens=limit, min_new_tokens=1, bad_words_ids=[[pad]]
        )
    ours = load(place / "imported").translate(lines, beam=4, max_length=(0.0, limit))
    ended = 0
    for row, own in zip(theirs, ours, strict=True):
        tokens = [token for token in tokenizer.convert_ids_to_tokens(row[1:]) if token != "<pad>"]
        if "</s>" in tokens and len(own.tokens) < limit:
            ended += 1
            assert own.tokens == tokens
    assert ended or all("</s>" not in tokenizer.convert_ids_to_tokens(row[1:]) for row in theirs)


def test_fine_tuning_and_round_trip(place: Path) -> None:
    files = [place / f"{split}.{side}" for split in ("train", "valid") for side in ("en", "de")]
    result = run_lamina(
        *("prepare", "--train", *files[:2], "--valid", *files[2:], "--text-from", place / "imported"),
        *("--out", place / "data"),
    )
    assert result.returncode == 0, result.stderr
    config = json.loads((place / "imported" / "config.json").read_text())["model"]
    config = {key: value for key, value in config.items() if not key.endswith("_vocab")}
    recipe = {
        "name": "tuned",
        "model": {"size": "tiny", **config},
        "train": {"max_steps": 20, "batch_tokens": 512, "lr": 1e-3, "warmup": 5, "save_every": 20,
                  "validate_every": 20, "log_every": 5},
    }  # fmt: skip
    (place / "recipe.yaml").write_text(json.dumps(recipe))
    run = place / "tuned"
    result = run_lamina(
        "train", place / "recipe.yaml", "--data", place / "data", "--init-from", place / "imported", "--out", run
    )
    assert result.returncode == 0, result.stderr
    losses = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    train = [each["loss"] for each in losses if each.get("kind", "train") == "train" and "loss" in each]
    assert train[-1] < train[0]
    out = place / "back"
    assert run_lamina("export", run, "--to", "huggingface", "--out", out).returncode == 0
    compare(out, run / "model")


@pytest.mark.parametrize(
    ("file", "change", "code", "message"),
    [
        ("config.json", {"model_type": "t5"}, 2, "config.json: model_type must be `marian`, but is `t5` instead."),
        ("config.json", {"normalize_before": True}, 2, "normalize_before must be False, but is True instead."),
        ("config.json", {"d_model": None}, 3, "d_model must be a whole number, but is None instead."),
        ("vocab.json", None, 3, "vocab.json: not found;"),
        ("vocab.json", {"dog": [7]}, 3, "vocab.json: must map 400 symbols to consecutive ids from 0."),
        ("source.spm", None, 3, "source.spm: cannot be read (No such file or directory)."),
        ("model.safetensors", None, 3, "has neither model.safetensors nor pytorch_model.bin."),
    ],
)
def test_unrelated_folders_are_rejected(
    place: Path, tmp_path: Path, file: str, change: dict[str, Any] | None, code: int, message: str
) -> None:
    shutil.copytree(place / "opus", tmp_path / "opus")
    path = tmp_path / "opus" / file
    if change is None:
        path.unlink()
    else:
        path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    result = run_lamina("import-marian", tmp_path / "opus", "--out", tmp_path / "out")
    assert (result.returncode, result.stdout) == (code, "")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
