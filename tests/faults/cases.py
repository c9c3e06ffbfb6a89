"""Cases of the campaign: a reference folder, commands to kill and files to damage."""

# ruff: noqa: E501

from __future__ import annotations

import gzip
import json
import os
import sys
from argparse import Namespace
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import torch
import zstandard
from child import Outcome, run, run_here

from lamina.demo.grammar import write_demo

sys.path.append(str(Path(__file__).parents[1] / "golden"))
from release import FLAGS, make_weights

RECIPE = """\
name: tiny
system: surface-fusion
model: {size: tiny, d_model: 16, ffn_size: 32, heads: 2, dropout: 0.1, encoder: {layers: 2}, decoder: {layers: 2}}
train: {max_steps: 12, batch_tokens: 256, lr: 2.0e-3, warmup: 4, save_every: 2, validate_every: 6, log_every: 2,
        gradients_every: 4, keep_last: 3}
"""
STUDY = "name: s\ndata: data\ntest: [valid.en, valid.de]\nsteps: 6\nbaseline: a\nsystems: {a: {recipe: recipe.yaml}}\n"
M2 = "S This are a sentence .\nA 1 2|||SVA|||is|||REQUIRED|||-NONE-|||0\n\nS It rain .\nA 1 2|||SVA|||rains|||REQUIRED|||-NONE-|||0\nA 2 2|||M|||today|||REQUIRED|||-NONE-|||1\n\n"
HTML = "<!doctype html><html lang=en><body><h1 class='x'>A dog</h1><p>The <b>dog</b> runs. A cat &amp; a dog.</p><!-- no --></body></html>\n"
SRT = "1\n00:00:01,000 --> 00:00:02,500\nA dog runs.\nA cat\n\n2\n00:00:03,000 --> 00:00:04,000\nsleeps.\n"
ERRORS = "rate: 0.2\nmix: {spelling: 3, case: 1}\nconfusions: gold.m2\n"
STDIN = "A dog runs.\n"

PREPARE = "prepare --train train.en train.de --valid valid.en valid.de --vocab-size 400 --workers 1 --out data --quiet"
TRAIN = "train recipe.yaml --data data --out run --device cpu --threads 1 --quiet"
STEP = "--device cpu --threads 1 --quiet --set train.max_steps=1 --set train.warmup=0"
DECODE = "--device cpu --threads 1 --quiet"
SHORT = f"{DECODE} --beam 2 --max-length 0 3"


class Command(NamedTuple):
    """A command to kill."""

    words: str
    makes: tuple[str, ...]  # removed before the start
    results: tuple[str, ...]  # outputs that must be the same in the end


class Reader(NamedTuple):
    """A command that reads a file, and whether a digest or checksum protects the file."""

    words: str
    needs: tuple[str, ...]  # copied for the command
    protected: bool = True
    result: str = "out.log"  # output must equal that of the undamaged file


COMMANDS = {
    "prepare": Command(PREPARE, ("data",), ("data/meta.json", "data/train/00000/source.ids", "data/train/00000/target.ids", "data/text/subwords.model")),
    "train": Command(TRAIN, ("run",), ("run/model/model.safetensors", "run/checkpoints/step_000012/model.safetensors")),
    "average": Command("average run --last 3", (), ("run/averaged/model.safetensors",)),
    "translate": Command(f"translate run --input valid.en --output out.de --force --beam 2 {DECODE}", (), ("out.de",)),
    "study": Command("study study.yaml --out study --jobs 99 --quiet", ("study",), ("study/runs/a-1/model/model.safetensors", "study/study.csv")),
}  # fmt: skip

DATA, RUN = ("data", "recipe.yaml"), ("run",)
MODEL = f"translate run --input valid.en {SHORT}", ("run", "valid.en")
TRAINED = "run2/model/model.safetensors"
READERS: dict[str, Reader] = {
    **{f"run/model/{name}": Reader(*MODEL) for name in ("config.json", "model.safetensors", "text.json", "subwords.model")},
    **{f"run/checkpoints/step_000012/{name}": Reader(TRAIN, ("run", *DATA), True, "run/model/model.safetensors") for name in ("config.json", "model.safetensors", "training_state.pt")},
    "run/checkpoints/step_000010/model.safetensors": Reader("average run --last 3", RUN, True, "run/averaged/model.safetensors"),
    "run/checkpoints/last.txt": Reader(TRAIN, ("run", *DATA), True, "run/model/model.safetensors"),
    "run/checkpoints/best.txt": Reader(f"translate run --checkpoint best {SHORT}", RUN, False),
    **{f"data/{name}": Reader(f"train recipe.yaml --data data --out run2 {STEP}", DATA, True, TRAINED)
       for name in ("meta.json", "text/text.json", "text/subwords.model", "train/00000/shard.json", "train/00000/source.ids", "train/00000/target.offsets", "valid/00000/target.ids", "valid/00000/source.offsets")},
    "words/text/vocabulary.source.txt": Reader("shortlist --data words --out s2", ("words",), True, "s2/shortlist.safetensors"),
    # a truncated recipe can be a valid one, whose defaults would train a model of size `base`
    "recipe.yaml": Reader(f"train recipe.yaml --data data --out run2 {STEP} --set model.size=tiny --set train.batch_tokens=256", DATA, False),
    "run/recipe.yaml": Reader(TRAIN, ("run", *DATA), True, "run/model/model.safetensors"),
    "run/run.json": Reader(TRAIN, ("run", *DATA), True, "run/model/model.safetensors"),
    "run/metrics.jsonl": Reader("analyze gradients run --out figures", RUN, False),
    "study.yaml": Reader("study study.yaml --out study --jobs 99 --quiet", ("study", "study.yaml", "valid.en", "valid.de", *DATA), False),
    "study/runs/a-1/study.txt": Reader("study study.yaml --out study --jobs 99 --quiet", ("study", "study.yaml", "valid.en", "valid.de", *DATA), True, "study/study.csv"),
    "study/runs/a-1/study-output.json": Reader("study study.yaml --out study --jobs 99 --quiet", ("study", "study.yaml", "valid.en", "valid.de", *DATA), True, "study/study.csv"),
    "shortlist/shortlist.safetensors": Reader(f"translate run --input valid.en --shortlist shortlist {SHORT}", ("run", "shortlist", "valid.en")),
    "fairseq/checkpoint.pt": Reader("import-fairseq fairseq/checkpoint.pt --source-dict fairseq/dict.txt --target-dict fairseq/dict.txt --out imported", ("fairseq",), False),
    "fairseq/dict.txt": Reader("import-fairseq fairseq/checkpoint.pt --source-dict fairseq/dict.txt --target-dict fairseq/dict.txt --out imported", ("fairseq",), False),
    "gold.m2": Reader("score --hyp hyp --ref gold.m2 --metric m2", ("hyp", "gold.m2"), False),
    "corpus.m2": Reader("prepare --train-m2 corpus.m2 --valid-m2 corpus.m2 --subwords none --out d --workers 1 --quiet", ("corpus.m2",), False),
    "pairs.jsonl": Reader("prepare --train-pairs pairs.jsonl --valid-pairs pairs.jsonl --subwords none --out d --workers 1 --quiet", ("pairs.jsonl",), False),
    "pairs.tsv": Reader("prepare --train-pairs pairs.tsv --valid-pairs pairs.tsv --subwords none --out d --workers 1 --quiet", ("pairs.tsv",), False),
    "codes.bpe": Reader("prepare --train valid.en valid.de --valid valid.en valid.de --bpe-codes codes.bpe --out d --workers 1 --quiet", ("codes.bpe", "valid.en", "valid.de"), False),
    "train.en.zst": Reader("score --hyp train.en.zst --ref train.en --metric chrf", ("train.en.zst", "train.en")),
    "train.en.gz": Reader("score --hyp train.en.gz --ref train.en --metric chrf", ("train.en.gz", "train.en"), False),
    "valid.en": Reader(f"translate run --input valid.en {SHORT}", ("run", "valid.en"), False),
    "page.html": Reader(f"translate run --input page.html --format-in html {SHORT}", ("run", "page.html"), False),
    "film.srt": Reader(f"translate run --input film.srt --format-in srt {SHORT}", ("run", "film.srt"), False),
    "out.jsonl": Reader("rescore run --input out.jsonl --device cpu", ("run", "out.jsonl"), False),
    "errors.yaml": Reader("noise --input valid.en --errors errors.yaml --output noisy clean", ("errors.yaml", "valid.en", "gold.m2"), False),
}  # fmt: skip
if find_spec("onnxruntime") and find_spec("onnx"):
    READERS |= {f"onnx/{name}": Reader(f"translate onnx {SHORT}", ("onnx",)) for name in ("onnx.json", "encoder.onnx", "decoder.onnx", "subwords.model")}  # fmt: skip
if find_spec("transformers"):
    READERS |= {f"marian/{name}": Reader("import-marian marian --out imported", ("marian",), False) for name in ("config.json", "vocab.json", "source.spm", "model.safetensors")}  # fmt: skip


def write_inputs(folder: Path) -> None:
    """Write text in every input format."""
    write_demo(folder, train=120, valid=12, test=1)
    english, german = ((folder / f"valid.{language}").read_text().splitlines() for language in ("en", "de"))
    both = list(zip(english, german, strict=True))
    train = (folder / "train.en").read_bytes()
    texts = {
        "recipe.yaml": RECIPE,
        "study.yaml": STUDY,
        "gold.m2": M2,
        "corpus.m2": M2 * 6,
        "hyp": "This is a sentence .\nIt rains .\n",
        "page.html": HTML,
        "film.srt": SRT,
        "errors.yaml": ERRORS,
        "pairs.jsonl": "".join(json.dumps({"src": source, "tgt": target}) + "\n" for source, target in both),
        "pairs.tsv": "".join(f"{source}\t{target}\n" for source, target in both),
        "codes.bpe": "#version: 0.2\nt h\nth e</w>\na n\n",
    }
    for name, content in texts.items():
        (folder / name).write_text(content)
    (folder / "train.en.zst").write_bytes(zstandard.ZstdCompressor(write_checksum=True).compress(train))
    (folder / "train.en.gz").write_bytes(gzip.compress(train))
    (folder / "fairseq").mkdir()
    flags = Namespace(**FLAGS)
    torch.save({"args": flags, "model": make_weights(flags, 24)}, folder / "fairseq" / "checkpoint.pt")
    (folder / "fairseq" / "dict.txt").write_text("".join(f"w{n} 1\n" for n in range(20)))


def make_reference(folder: Path) -> dict[str, Outcome]:
    """Run everything once in this process, so that forks need not import or compile; then each command in a fork."""
    write_inputs(folder)
    for command in COMMANDS.values():
        demand(folder, command.words)
    demand(folder, "prepare --train train.en train.de --valid valid.en valid.de --subwords none --separate-vocab --out words --workers 1 --quiet")  # fmt: skip
    demand(folder, "shortlist --data data --out shortlist")
    demand(folder, f"translate run --input valid.en --format jsonl --output out.jsonl {SHORT}")
    if "onnx/onnx.json" in READERS:
        demand(folder, "export run --to onnx --out onnx")
    if "marian/config.json" in READERS:
        write_marian(folder)
    wholes = {}
    for name, command in COMMANDS.items():
        for made in command.makes:
            (folder / made).rename(folder / f"{made}.kept")
        wholes[name] = run(folder, command.words.split())
        assert wholes[name].code == 0, wholes[name].said
    return wholes


def demand(folder: Path, words: str) -> None:
    code, said = run_here(folder, words.split(), STDIN)
    assert code == 0, (words, said)


def write_marian(folder: Path) -> None:
    """Write a Marian checkpoint with random weights, in a fork because transformers is large."""
    child = os.fork()
    if child == 0:
        import sentencepiece
        import transformers

        out = folder / "marian"
        out.mkdir()
        pieces = (folder / "data" / "text" / "subwords.model").read_bytes()
        for side in ("source", "target"):
            (out / f"{side}.spm").write_bytes(pieces)
        processor = sentencepiece.SentencePieceProcessor(model_proto=pieces)
        names = [processor.id_to_piece(index) for index in range(4, processor.get_piece_size())]
        ids = {symbol: index for index, symbol in enumerate(("</s>", "<unk>", *names, "<pad>"))}
        (out / "vocab.json").write_text(json.dumps(ids))
        (out / "tokenizer_config.json").write_text(json.dumps({"source_lang": "en", "target_lang": "de"}))
        sizes = {
            f"{stack}_{name}": value
            for stack in ("encoder", "decoder")
            for name, value in (("layers", 1), ("ffn_dim", 24), ("attention_heads", 2))
        }
        config = transformers.MarianConfig(
            vocab_size=len(ids), d_model=16, activation_function="swish", scale_embedding=True, max_position_embeddings=64,
            pad_token_id=ids["<pad>"], eos_token_id=0, decoder_start_token_id=ids["<pad>"], forced_eos_token_id=None, **sizes,
        )  # fmt: skip
        transformers.MarianMTModel(config).save_pretrained(out)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
