"""Bad input, one row per trial: command, problem of its input, exit code and message.

New commands add rows here. No trial may give a traceback or an "unexpected" error.
"""

# ruff: noqa: E501

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import zstandard

from support import run_lamina

BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join([f'*{chr(97 + n)}'] * 10)}]\n" for n in range(8)
)


class Trial(NamedTuple):
    name: str
    command: str  # with {tmp}, {run}, {data} and {recipe}
    code: int
    message: str
    make: Callable[[Path], Any] = lambda tmp: None  # sets up {tmp}


def text(name: str, content: str = "A dog runs.\n") -> Callable[[Path], Any]:
    return lambda tmp: (tmp / name).write_text(content)


def raw(name: str, content: bytes) -> Callable[[Path], Any]:
    return lambda tmp: (tmp / name).write_bytes(content)


def both(*makers: Callable[[Path], Any]) -> Callable[[Path], Any]:
    return lambda tmp: [make(tmp) for make in makers]


def pairs(*lines: str) -> Callable[[Path], Any]:
    return both(text("x.jsonl", "".join(f"{line}\n" for line in lines)))


PREPARE = "prepare --train-pairs {tmp}/x.jsonl --valid-pairs {tmp}/x.jsonl --out {tmp}/out"
TRIALS = [
    # options
    Trial("lenpen nan", "translate {run} --lenpen nan", 2, "--lenpen"),
    Trial("lenpen -1000", "translate {run} --lenpen -1000", 2, "--lenpen"),
    Trial("lenpen huge", "translate {run} --lenpen 1e308", 2, "--lenpen"),
    Trial("temperature inf", "translate {run} --sample --temperature inf", 2, "--temperature"),
    Trial("seed 2^64", "translate {run} --sample --seed 18446744073709551616", 2, "--seed"),
    Trial("beam 3000", "translate {run} --beam 3000", 2, "--beam"),
    Trial("max-length inf", "translate {run} --max-length inf 20", 2, "max_length"),
    Trial("max-length below 0", "translate {run} --max-length -5 20", 2, "max_length"),
    Trial("threads 100000", "translate {run} --threads 100000", 2, "--threads"),
    Trial("vocabulary of 2 billion", PREPARE + " --vocab-size 2000000000", 2, "--vocab-size", pairs("{}")),
    Trial("no GPU", "translate {run} --device cuda", 2, "Device `cuda`: torch found no CUDA device; use `cpu`, or run"),
    Trial("no GPU to train", "train {recipe} --data {data} --out {tmp}/r --device cuda", 2, "no CUDA device"),
    Trial("fields of two files", "prepare --train {tmp}/a {tmp}/a --valid {tmp}/a {tmp}/a --fields x y --out {tmp}/o", 2,
          "--fields requires --train-pairs, --valid-pairs or --test-pairs.", text("a")),
    Trial("pretokenized sentencepiece", "prepare --train {tmp}/a {tmp}/a --valid {tmp}/a {tmp}/a --pretokenized "
          "--out {tmp}/o", 2, "--pretokenized needs --subwords bpe", text("a")),
    Trial("lower-case words", "prepare --train {tmp}/a {tmp}/a --valid {tmp}/a {tmp}/a --lowercase --subwords none "
          "--out {tmp}/o", 2, "--lowercase needs --subwords sentencepiece", text("a")),
    Trial("text-from and langs", "prepare --train {tmp}/a {tmp}/a --valid {tmp}/a {tmp}/a --text-from {run} "
          "--langs en de --out {tmp}/o", 2, "--text-from provides the text pipeline", text("a")),
    # recipes
    Trial("override not YAML", "train {recipe} --data {data} --out {tmp}/r --set train.lr=[1,2", 2,
          "--set train.lr: not YAML:"),
    Trial("duplicate key", "train {tmp}/r.yaml --data {data} --out {tmp}/r", 2, "r.yaml:2: not YAML: duplicate key `name`",
          text("r.yaml", "name: a\nname: b\n")),
    Trial("YAML bomb", "train {tmp}/r.yaml --data {data} --out {tmp}/r", 2, "aliases expand to more than 100,000 values",
          text("r.yaml", BOMB)),
    Trial("alias to itself", "train {tmp}/r.yaml --data {data} --out {tmp}/r", 2, "not YAML", text("r.yaml", "a: &a [*a]\n")),
    Trial("binary recipe", "train {tmp}/r.yaml --data {data} --out {tmp}/r", 2, "r.yaml: not YAML: not UTF-8 at byte 1.\n",
          raw("r.yaml", b"a\xfe")),
    Trial("name of a path", "train {tmp}/r.yaml --data {data}", 2, "r.yaml:1: name:", text("r.yaml", "name: ../../evil\n")),
    Trial("billion layers", "train {recipe} --data {data} --out {tmp}/r --set model.encoder.layers=1000000000", 2,
          "model.encoder.layers: must be less than or equal to 1000"),
    Trial("width of a billion", "train {recipe} --data {data} --out {tmp}/r --set model.d_model=1000000000", 2,
          "model.d_model: must be less than or equal to 65536"),
    Trial("seed 2^64 in a recipe", "train {recipe} --data {data} --out {tmp}/r --set train.seed=18446744073709551616", 2,
          "train.seed: must be less than 4294967296"),
    Trial("out of a recipe's folder", "train {tmp}/recipe.yaml --data {data} --out {tmp}", 2,
          "contains files, but is not a run. Choose another folder.", text("recipe.yaml", "system: msc\n")),
    # text
    Trial("truncated zst", "translate {run} --input {tmp}/a.zst", 3, "a.zst: damaged, or not in the format that its suffix indicates",
          raw("a.zst", zstandard.compress(b"A dog runs.\n" * 4000)[:-9])),
    Trial("truncated gz", "translate {run} --input {tmp}/a.gz", 3, "a.gz: damaged",
          raw("a.gz", gzip.compress(b"A dog runs.\n" * 4000)[:-9])),
    Trial("not UTF-8", "translate {run} --input {tmp}/a", 3, "a:2: not UTF-8 (byte 0xff at column 3)", raw("a", b"A\nab\xff\n")),
    Trial("folder for a file", "translate {run} --input {tmp}", 3, ": is a folder, not a file."),
    Trial("folder to prepare", "prepare --train {tmp} {tmp} --valid {tmp} {tmp} --out {tmp}/o", 3, "is a folder, not a file"),
    Trial("lone surrogate", PREPARE, 3, "x.jsonl:1: field `src` contains a lone surrogate",
          pairs(r'{"src": "\ud800", "tgt": "a"}')),
    Trial("nested arrays", PREPARE, 3, "x.jsonl:1: not JSON", pairs("[" * 100_000)),
    Trial("numbers for text", PREPARE, 3, "x.jsonl:1: field `src` must be text, but has type `int` instead.", pairs('{"src": 1, "tgt": "a"}')),
    Trial("empty validation", "prepare --train {tmp}/a {tmp}/a --valid {tmp}/b {tmp}/b --out {tmp}/o", 3,
          "b: has no lines (valid split).", both(text("a"), text("b", ""))),
    Trial("empty test in compare", "compare {run} {run} --test {tmp}/b {tmp}/b", 3, "b: has no lines.", text("b", "")),
    Trial("empty test in eval", "eval {run} --test {tmp}/b {tmp}/b", 3, "b: has no lines.", text("b", "")),
    Trial("unequal lengths", "eval {run} --test {tmp}/a {tmp}/b", 3, "has 1 line, but", both(text("a"), text("b", "x\ny\n"))),
    Trial("13a without spaces", "score --hyp {tmp}/a --ref {tmp}/a --tokenize 13a", 2, "no spaces between words",
          text("a", "これはペンです。\n" * 5)),
    Trial("short lines without spaces", "score --hyp {tmp}/a --ref {tmp}/a", 2, "no spaces between words", text("a", "これはペンです。\n" * 5)),
    Trial("no spaces", "score --hyp {tmp}/a --ref {tmp}/a", 2, "no spaces between words", text("a", "我们喜欢翻译系统因为它们很有趣而且非常有用\n" * 5)),
    Trial("unknown tokenizer", "score --hyp {tmp}/a --ref {tmp}/a --tokenize 13b", 2, "Unknown tokenizer `13b`. Did you mean `13a`?",
          text("a")),
    Trial("attention of a book", "analyze attention {run} --source " + "x" * 3000, 2, "drawn for at most 200 subwords"),
    # rescore
    Trial("tokens without eos", "rescore {run} --input {tmp}/x.jsonl", 3, "x.jsonl:1: the tokens must end with </s>",
          pairs('{"line": 1, "source": "a", "nbest": [{"tokens": ["a"]}]}')),
    Trial("a very long target", "rescore {run} --source {tmp}/a --target {tmp}/b", 3, "at most 2,048 can be scored",
          both(text("a"), text("b", "x" * 50_000 + "\n"))),
    Trial("not our jsonl", "rescore {run} --input {tmp}/x.jsonl", 3, "x.jsonl:1: not a line of", pairs('{"line": "x"}')),
    # outputs
    Trial("output is input", "translate {run} --input {tmp}/a --output {tmp}/a", 2, "is also an input", text("a")),
    Trial("output is prefix", "translate {run} --prefix {tmp}/a --output {tmp}/a --force", 2, "is also an input", text("a")),
    Trial("output exists", "translate {run} --output {tmp}/a", 2, "already exists; use --force to replace it.", text("a")),
    Trial("eval over its test", "eval {run} --test {tmp}/a {tmp}/a --output {tmp}/a --force", 2, "is also an input", text("a")),
    Trial("report over its test", "analyze report {run} --test {tmp}/a {tmp}/a --out {tmp}/a --force", 2, "is also an input",
          text("a")),
    Trial("report over a recipe", "analyze report {run} --out {run}/recipe.yaml --force", 2, "recipe.yaml: is also an input"),
    Trial("report over my file", "analyze report {run} --out {tmp}/a", 2, "already exists; use --force", text("a")),
    Trial("difficulty over its parts", "analyze difficulty {run} --test {tmp}/parts/test.src.part0 {tmp}/parts/test.tgt.part0 "
          "--out {tmp} --force", 2, "test.src.part0: is also an input", both(lambda tmp: (tmp / "parts").mkdir(),
          text("parts/test.src.part0"), text("parts/test.tgt.part0"))),
    Trial("bench of no text", "bench decode {run} --input {tmp}/a", 3, "a: has no lines to translate.", text("a", "\n\n")),
    Trial("demo over my files", "demo --out {tmp}", 2, "is not empty and was not made by `lamina demo`", text("mine")),
    Trial("output in no folder", "translate {run} --output {tmp}/no/such", 3, "cannot be written"),
    # studies
    Trial("equal seeds", "study {tmp}/s.yaml", 2, "seeds: must all differ", text("s.yaml",
          "name: s\ndata: d\ntest: [a, b]\nsteps: 1\nseeds: [1, 1]\nbaseline: x\nsystems: {x: {recipe: r}}\n")),
    Trial("systems of paths", "study {tmp}/s.yaml", 2, "systems.../../evil", text("s.yaml",
          "name: s\ndata: d\ntest: [a, b]\nsteps: 1\nbaseline: ../../evil\nsystems: {../../evil: {recipe: r}}\n")),
    Trial("study not YAML", "study {tmp}/s.yaml", 2, "s.yaml:1: not YAML:", text("s.yaml", "a: [")),
    # models, data and unrelated folders
    Trial("symbolic loop", "translate {tmp}/loop", 3, "loop", lambda tmp: (tmp / "loop").symlink_to(tmp / "loop")),
    Trial("serve nothing", "serve", 2, "RUN is required. Example: lamina serve runs/first"),
    Trial("swapped pairs to analyze", "analyze embeddings {run} --pairs {tmp}/x.de {tmp}/x.en --out {tmp}/f", 2,
          "test set: source and target are swapped", both(text("x.de"), text("x.en"))),
    Trial("swapped pairs to rescore", "rescore {run} --source {tmp}/x.de --target {tmp}/x.en", 2,
          "--source, --target: source and target are swapped", both(text("x.de"), text("x.en"))),
    Trial("translate a file", "translate {tmp}/a", 2, "is a file, not a run or model. To translate it, use --input", text("a")),
    Trial("serve no run", "serve {tmp}/none", 3, "none: not found."),
    Trial("serve without a name", "serve --name =x", 2, "--name must be NAME=RUN"),
    Trial("serve one name twice", "serve --name a={run} --name a={run}", 2, "Two models are named `a`"),
    Trial("rate of nothing", "serve {run} --rate x/min", 2, "--rate must be requests per minute"),
    Trial("port 70000", "serve {run} --port 70000", 2, "--port must be less than or equal to 65535"),
    Trial("keys not UTF-8", "serve {run} --api-keys {tmp}/keys", 3, "keys: cannot be read as a file of API keys",
          raw("keys", b"\xff\xfe")),
    Trial("no keys", "serve {run} --api-keys {tmp}/keys", 3, "keys: has no keys", text("keys", "")),
    Trial("export over a folder", "export {run} --to onnx --out {tmp}", 2, "already exists; choose another path"),
    Trial("export to an unknown format", "export {run} --to tf --out {tmp}/o", 2, "--to must be one of `ctranslate2`"),
    Trial("export a fused head", "export {run} --to ctranslate2 --out {tmp}/o", 2, "CTranslate2 does not support head `surface`"),
    Trial("argos without its suffix", "export {run} --to argos --out {tmp}/o", 2, "--out must be a file that ends in .argosmodel"),
    Trial("int8 for transformers", "export {run} --to huggingface --out {tmp}/o --int8", 2, "--int8: `transformers` quantises"),
    Trial("distill into a file", "distill {run} --student {recipe} --source {tmp}/a --valid {tmp}/a {tmp}/a --out {tmp}/a", 3,
          "cannot be written (Not a directory).", text("a")),
    Trial("student that is nowhere", "distill {run} --student none --source {tmp}/a --valid {tmp}/a {tmp}/a --out {tmp}/o", 2,
          "none: neither a file nor the name of a system or shipped recipe", text("a")),
    Trial("distill a missing source", "distill {run} --student {recipe} --source {tmp}/b --valid {tmp}/a {tmp}/a --out {tmp}/o", 3,
          "b: not found.", text("a")),
    Trial("distill shard 3/2", "distill {run} --student {recipe} --source {tmp}/a --valid {tmp}/a {tmp}/a --out {tmp}/o --shard 3/2", 2,
          "--shard must be I/N with I from 1 to N", text("a")),
    Trial("shortlist of a run", "shortlist --data {run} --out {tmp}/o", 3, "is not a finished data folder"),
    Trial("shortlist over a folder", "shortlist --data {data} --out {tmp}", 2, "already exists; choose another path"),
    Trial("billion candidates", "shortlist --data {data} --out {tmp}/o --candidates 1000000000", 2,
          "--candidates must be less than or equal to 10000"),
    Trial("shortlist that is nowhere", "translate {run} --shortlist {tmp}/none", 3, "none/shortlist.safetensors: not found"),
    Trial("not a shortlist", "translate {run} --shortlist {tmp}", 3, "shortlist.safetensors: is not a shortlist",
          raw("shortlist.safetensors", b"\xff" * 64)),
    Trial("noise twice into one file", "noise --input {tmp}/a --output {tmp}/x {tmp}/x", 2, "x: given twice", text("a")),
    Trial("noise over its input", "noise --input {tmp}/a --output {tmp}/a {tmp}/y --force", 2, "is also an input", text("a")),
    Trial("noise over my file", "noise --input {tmp}/a --output {tmp}/b {tmp}/y", 2, "already exists", both(text("a"), text("b"))),
    Trial("errors not YAML", "noise --input {tmp}/a --output {tmp}/x {tmp}/y --errors {tmp}/e", 2, "e: not YAML",
          both(text("a"), raw("e", b"a: \xff"))),
    Trial("errors of a list", "noise --input {tmp}/a --output {tmp}/x {tmp}/y --errors {tmp}/e", 2, "e: must be a mapping",
          both(text("a"), text("e", "[1]"))),
    Trial("errors of a folder", "noise --input {tmp}/a --output {tmp}/x {tmp}/y --errors {tmp}", 2, "cannot be read", text("a")),
    Trial("edits of unequal files", "edits --source {tmp}/a --hyp {tmp}/b", 3, "has 1 line, but", both(text("a"), text("b", "x\ny\n"))),
    Trial("edits over an input", "edits --source {tmp}/a --hyp {tmp}/a --output {tmp}/a --force", 2, "is also an input", text("a")),
    Trial("push to no owner", "push {run} name", 2, "A repository must be OWNER/NAME, but is `name` instead."),
    Trial("push no model", "push {tmp} me/x", 3, "is neither a run with a model nor a model folder"),
    Trial("Marian of nothing", "import-marian {tmp} --out {tmp}/o", 3, "is not a Marian checkpoint in Hugging Face format"),
    Trial("Marian of ours", "import-marian {run}/model --out {tmp}/o", 2, "model_type must be `marian`"),
    Trial("grown from nothing", "train {recipe} --data {data} --out {tmp}/r --grow-from {tmp}/none", 3, "none: not found."),
    Trial("growing a plain recipe", "train {recipe} --data {data} --out {tmp}/r --grow-from {run}", 2,
          "Depth growing needs a model with encoder `grown`"),
    Trial("growing by the wrong option", "train depth-growing --data {data} --out {tmp}/r --init-from {run} "
          "--set model.size=tiny", 2, "use --grow-from, not --init-from"),
    Trial("average of nothing", "average {tmp} --last 1", 3, "is not a run with checkpoints."),
    Trial("average of words", "average {run} --steps x", 2, "--steps must be comma-separated numbers"),
    Trial("codes of the future", "prepare --train {tmp}/a {tmp}/a --valid {tmp}/a {tmp}/a --bpe-codes {tmp}/c --out {tmp}/o", 3,
          "c: not a subword-nmt codes file: unknown version.", both(text("a"), text("c", "#version: 7.5\na b</w>\n"))),
    Trial("bad codes", "prepare --train {tmp}/a {tmp}/a --valid {tmp}/a {tmp}/a --bpe-codes {tmp}/c --out {tmp}/o", 3,
          "c: not a subword-nmt codes file", both(text("a"), text("c", "not merges at all\n"))),
    Trial("plan of a failure, and my files", "prepare --train {tmp}/a {tmp}/a --valid {tmp}/a {tmp}/a --out {tmp}/o", 2,
          "is not empty and contains no prepared data", both(text("a"), lambda tmp: (tmp / "o" / "train").mkdir(parents=True),
          text("o/failed-plan.json", "{}"), text("o/train/mine"))),
    # many machines, documents, baselines
    Trial("cluster of nothing", "study {tmp}/s.yaml --cluster mine", 2, "--cluster must be one of `local`, `slurm`"),
    Trial("options of no cluster", "study {tmp}/s.yaml --cluster-option a=b", 2, "--cluster-option requires --cluster."),
    Trial("jobs of no cluster", "translate {run} --jobs 3", 2, "--jobs requires --cluster."),
    Trial("shard 3/2", "translate {run} --shard 3/2 --input {tmp}/a --output {tmp}/o", 2, "--shard must be I/N", text("a")),
    Trial("shard of stdin", "translate {run} --shard 1/2 --output {tmp}/o", 2, "--shard needs --input FILE and --output DIR."),
    Trial("shard into a file", "translate {run} --shard 1/2 --input {tmp}/a --output {tmp}/a", 2, "a: is a file; with --shard", text("a")),
    Trial("shards of no cluster", "translate {run} --shards 4 --input {tmp}/a --output {tmp}/o", 2, "Use --cluster and --shards N together", text("a")),
    Trial("a document of no text", "translate {run} --format-in html --input {tmp}/a", 3, "a: not UTF-8 at byte 2.", raw("a", b"ab\xff")),
    Trial("a document as jsonl", "translate {run} --format-in srt --format jsonl", 2, "--format-in writes a document in the format of its input"),
    Trial("a document by prefix", "translate {run} --format-in html --prefix {tmp}/a", 2, "--format-in writes a document in the format of its input", text("a")),
    Trial("unknown baseline", "eval --baseline lead-0 --test {tmp}/a {tmp}/a", 2, "Unknown baseline `lead-0`", text("a")),
    Trial("baseline and run", "eval {run} --baseline copy --test {tmp}/a {tmp}/a", 2, "Give either a run or a baseline (copy or lead-K).", text("a")),
    Trial("beam of a baseline", "eval --baseline copy --test {tmp}/a {tmp}/a --beam 3", 2, "--beam requires RUN.", text("a")),
    Trial("diversity of one group in eval", "eval {run} --test {tmp}/a {tmp}/a --diversity 1", 2,
          "--diversity requires --diverse-groups.", text("a")),
    Trial("shallow run that is nowhere", "translate {run} --shallow {tmp}/none", 3, "none: not found."),
]  # fmt: skip


@pytest.mark.parametrize("trial", TRIALS, ids=lambda trial: trial.name)
def test_trial(trial: Trial, data: Path, straight: Path, tmp_path: Path) -> None:
    trial.make(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    places = {"tmp": tmp_path, "run": straight, "data": data / "data", "recipe": data / "recipe.yaml"}
    result = run_lamina(*(word.format(**places) for word in trial.command.split(" ")), stdin="A dog runs.\n")
    assert result.returncode == trial.code, result.stderr
    assert trial.message in result.stderr
    assert "Traceback" not in result.stderr
    assert "unexpected" not in result.stderr
    assert {path: path.read_bytes() for path in before} == before


FOLDERS = {  # damaged file and the command that reads it
    "model/config.json": "translate {run}",
    "model/text.json": "translate {run}",
    "model/subwords.model": "translate {run}",
    "model/model.safetensors": "translate {run}",
    "recipe.yaml": "train {recipe} --data {data} --out {run}",
    "run.json": "train {recipe} --data {data} --out {run}",
    "checkpoints/step_000024/model.safetensors": "translate {run} --checkpoint last",
    "checkpoints/step_000024/training_state.pt": "average {run} --last 1",
    "checkpoints/step_000020/model.safetensors": "analyze difficulty {run} --test {valid}.en {valid}.de --checkpoints 2",
    "checkpoints/step_000016/model.safetensors": "export {run} --to onnx --checkpoint 16 --out {run}/onnx",
    "data/meta.json": "train {recipe} --data {run}/data --out {run}/new",
    "data/train/00000/shard.json": "train {recipe} --data {run}/data --out {run}/new",
    "data/text/text.json": "train {recipe} --data {run}/data --out {run}/new",
}
CONTENTS = {
    "empty": b"",
    "zeros": bytes(300),
    "bytes": bytes(range(256)) * 4,
    "json": json.dumps({"format": 2, "sha256": {}}).encode(),
    "list": b"[]",
    "deep": b"[" * 100_000,
}


@pytest.mark.parametrize(
    "content", ["bytes", *(pytest.param(name, marks=pytest.mark.slow) for name in CONTENTS if name != "bytes")]
)
@pytest.mark.parametrize("name", FOLDERS)
def test_a_damaged_file_is_named(name: str, content: str, data: Path, straight: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(straight, run)
    shutil.copytree(data / "data", run / "data")
    (run / name).write_bytes(CONTENTS[content])
    places = {"run": run, "data": data / "data", "recipe": data / "recipe.yaml", "valid": data / "valid"}
    result = run_lamina(*(word.format(**places) for word in FOLDERS[name].split(" ")), stdin="A dog runs.\n")
    assert result.returncode in (2, 3), result.stderr
    assert str(run) in result.stderr
    assert "Traceback" not in result.stderr
    assert "unexpected" not in result.stderr


def test_stray_files_among_checkpoints_are_ignored(straight: Path, tmp_path: Path) -> None:
    """Unknown names are ignored; damaged pointers and records count as missing."""
    run = tmp_path / "run"
    shutil.copytree(straight, run)
    (run / "checkpoints" / "step_abc").mkdir()
    (run / "checkpoints" / "best.txt").write_bytes(b"\xff")
    (run / "metrics.jsonl").write_bytes((run / "metrics.jsonl").read_bytes() + b"[" * 100_000)
    for command in ("translate {run} --checkpoint best", "average {run} --last 2", "analyze gradients {run}"):
        result = run_lamina(*command.format(run=run).split(" "), stdin="A dog runs.\n")
        assert (result.returncode, "unexpected" in result.stderr) == (0, False), result.stderr


@pytest.mark.parametrize(("content", "message"), [("", "b: has no lines."), (None, "b: not found.")])
def test_the_test_set_of_a_study_is_read_first(content: str | None, message: str, data: Path, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "b").write_text(content)
    (tmp_path / "s.yaml").write_text(
        f"name: s\ndata: {data / 'data'}\ntest: [{tmp_path}/b, {tmp_path}/b]\nsteps: 1\nbaseline: x\n"
        "systems: {x: {recipe: multi30k-en-de-transformer}}\n"
    )
    result = run_lamina("study", tmp_path / "s.yaml", "--out", tmp_path / "o")
    assert (result.returncode, message in result.stderr) == (3, True), result.stderr
    assert not (tmp_path / "o" / "runs").exists()
