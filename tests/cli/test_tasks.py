"""Commands for summarization, error correction and depth growing, from raw files to scores, and their errors."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from lamina.corpus.prepared import PreparedData
from lamina.store.model_folder import load_model_folder
from lamina.text.vocabulary import BOS
from support import run_lamina

RECIPE = """\
name: tasks
system: pointer-generator
model: {size: tiny, d_model: 16, ffn_size: 32, heads: 2, dropout: 0.1, encoder: {layers: 2}, decoder: {layers: 2}}
train: {max_steps: 6, batch_tokens: 256, lr: 2.0e-3, warmup: 3, save_every: 3, validate_every: 6, log_every: 3}
decode: {beam: 2, max_length: [0, 8], no_repeat_ngram: 2}
"""


def run(*arguments: str | Path, stdin: str = "") -> str:
    result = run_lamina(*arguments, stdin=stdin)
    assert result.returncode == 0, result.stderr
    return result.stdout


def fails(*arguments: str | Path) -> tuple[int, str]:
    result = run_lamina(*arguments)
    return result.returncode, result.stderr


@pytest.fixture(scope="module")
def mails(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Documents and summaries, prepared with sentence boundaries and truncation."""
    folder = tmp_path_factory.mktemp("mails")
    for name, count in (("train", 60), ("valid", 6)):
        with (folder / f"{name}.jsonl").open("w") as lines:
            for number in range(count):
                body = f"Dear all {number}.\nThe meeting is on day {number % 7}. Please come to room {number % 5}."
                lines.write(
                    json.dumps({"body": body * (1 + number % 3), "subject": f"meeting on day {number % 7}"}) + "\n"
                )
    files = ["--train-pairs", folder / "train.jsonl", "--valid-pairs", folder / "valid.jsonl"]
    run(
        *("prepare", *files, "--fields", "body", "subject", "--sentences", "--max-source", "40"),
        *("--vocab-size", "340", "--no-filter", "all", "--workers", "1", "--out", folder / "data"),
    )
    (folder / "recipe.yaml").write_text(RECIPE)
    return folder


@pytest.fixture(scope="module")
def summarizer(mails: Path) -> Path:
    run(
        "train", mails / "recipe.yaml", "--data", mails / "data", "--out", mails / "run", "--set", "system=hierarchical"
    )
    return mails / "run"


def test_truncation_is_counted_and_boundaries_are_kept(mails: Path) -> None:
    data = PreparedData(mails / "data")
    source, _ = data.split("train")[0]
    assert (source == BOS).sum() == 2
    lengths = data.split("train").lengths("source")
    truncated = data.meta["splits"]["train"]["truncated"]
    assert lengths.max() == 40
    assert 0 < truncated <= (lengths == 40).sum()
    report = (mails / "data" / "report.md").read_text()
    assert f"Sources of more than 40 subwords: {truncated:,} of train" in report


def test_documents_of_any_length(summarizer: Path) -> None:
    """Empty, one word, and too long, which is truncated with a note; the recipe's length limits hold."""
    long = "Dear all. " * 30_000
    result = run_lamina("translate", summarizer, "--format", "jsonl", stdin=f"\nhello\n{long}\n")
    assert result.returncode == 0, result.stderr
    empty, word, much = (json.loads(line) for line in result.stdout.splitlines())
    assert (empty["text"], empty["tokens"]) == ("", [])
    assert all(len(each["tokens"]) <= 9 for each in (word, much))
    assert f"lamina: line 3: truncated: {much['cut']:,} subwords dropped." in result.stderr
    assert much["cut"] > 50_000


def test_baselines_and_runs_in_one_table(summarizer: Path, tmp_path: Path) -> None:
    pytest.importorskip("rouge_score")
    (tmp_path / "src").write_text("Dear all. The meeting is on day 3. Come.\nOne. Two. Three. Four.\n")
    (tmp_path / "ref").write_text("meeting on day 3\ntwo three\n")
    test = ["--test", tmp_path / "src", tmp_path / "ref", "--metric", "rouge"]
    found = json.loads(run("eval", "--baseline", "lead-2", *test, "--json"))
    assert [each["name"] for each in found] == ["rouge-1", "rouge-2", "rouge-l"]
    low, high = found[0]["interval"]
    assert low <= found[0]["score"] <= high
    table = run("compare", summarizer, "--baseline", "lead-2", *test, "--samples", "20")
    assert [line.split()[:2] for line in table.splitlines()[1:3]] == [
        ["rouge-1", "lead-2"],
        ["rouge-1", str(summarizer)],
    ]
    assert fails("eval", *test) == (2, "lamina: Give either a run or a baseline (copy or lead-K).\n")
    assert fails("eval", "--baseline", "lead-x", *test)[0] == 2


M2 = "S w1 w2 w3 .\nA 1 2|||R|||w5|||REQUIRED|||-NONE-|||0\nA 1 2|||R|||w6|||REQUIRED|||-NONE-|||1\n\n"


@pytest.fixture(scope="module")
def gec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gec")
    (folder / "train.m2").write_text("".join(M2.replace("w3", f"w{n}") for n in range(7, 30)))
    files = ["--train-m2", folder / "train.m2", "--valid-m2", folder / "train.m2"]
    run("prepare", *files, "--subwords", "none", "--workers", "1", "--out", folder / "data")
    run("prepare", *files, "--annotator", "1", "--subwords", "none", "--workers", "1", "--out", folder / "one")
    (folder / "recipe.yaml").write_text(RECIPE)
    return folder


def test_m2_as_training_data(gec: Path) -> None:
    assert len(PreparedData(gec / "data").split("train")) == 2 * len(PreparedData(gec / "one").split("train"))
    files = ["--train-m2", gec / "train.m2", "--valid-m2", gec / "train.m2", "--annotator", "4"]
    code, message = fails("prepare", *files, "--subwords", "none", "--out", gec / "none")
    assert (code, message) == (3, f"lamina: {gec / 'train.m2'}: has no annotator `4`, only 0, 1.\n")


def test_training_with_edit_weights_and_word_dropout(gec: Path) -> None:
    changes = ["--set", "train.edit_weight=3.0", "--set", "train.source_word_dropout=0.2"]
    run("train", gec / "recipe.yaml", "--data", gec / "data", "--out", gec / "run", *changes)
    found = json.loads(
        run("eval", gec / "run", "--test", gec / "train.m2", gec / "train.m2", "--metric", "m2", "--json")
    )
    assert found[0]["details"]["gold"] == 23
    records = [json.loads(line) for line in (gec / "run" / "metrics.jsonl").read_text().splitlines()]
    losses = [each["loss"] for each in records if each["kind"] == "train"]
    assert all(0 < loss < 20 for loss in losses)


def test_noise_and_edits(tmp_path: Path) -> None:
    (tmp_path / "clean").write_text("He has a house in the city .\n\nThey were there .\n")
    (tmp_path / "train.m2").write_text(M2)
    (tmp_path / "errors.yaml").write_text("rate: 0.6\nmix: {swap: 0}\nconfusions: train.m2\n")
    outputs = [tmp_path / "noisy", tmp_path / "same"]
    arguments = ["noise", "--lang", "en", "--input", tmp_path / "clean", "--errors", tmp_path / "errors.yaml"]
    run(*arguments, "--output", *outputs)
    noisy = outputs[0].read_text()
    assert noisy != outputs[1].read_text() == (tmp_path / "clean").read_text()
    run(*arguments, "--output", *outputs, "--force")
    assert outputs[0].read_text() == noisy
    assert fails(*arguments, "--output", *outputs)[0] == 2  # already exists
    other = run_lamina("noise", "--lang", "de", "--input", tmp_path / "clean", "--output", *outputs, "--force")
    note = (
        "No error table for `de`: adding only errors that need none, such as typos. There are tables for `en` and "
        "`uk`.\nErrors in 0 of 3 lines: none.\n"
    )
    assert (other.returncode, other.stderr) == (0, note)
    run(*arguments, "--output", *outputs, "--force")
    found = run("edits", "--source", outputs[0], "--hyp", outputs[1])
    assert found.count("S ") == 3
    assert "noop" in found
    (tmp_path / "made.m2").write_text(found)
    assert '"score": 100.0' in run(
        "score", "--hyp", outputs[1], "--ref", tmp_path / "made.m2", "--metric", "m2", "--json"
    )
    assert "[-" in run("edits", "--source", outputs[0], "--hyp", outputs[1], "--format", "diff")
    lines = run("edits", "--source", outputs[0], "--hyp", outputs[1], "--format", "jsonl").splitlines()
    assert [json.loads(line)["line"] for line in lines] == [1, 2, 3]
    (tmp_path / "errors.yaml").write_text("rate: 2\nmix: {swop: 0}\n")
    code, message = fails(*arguments, "--output", *outputs, "--force")
    assert code == 2
    assert "mix.swop: not an option. Did you mean `swap`?" in message


def test_growing_a_model(mails: Path) -> None:
    data = ["--data", mails / "data"]
    run("train", mails / "recipe.yaml", *data, "--out", mails / "old", "--set", "system=transformer")
    deeper = [
        *("--set", "system=depth-growing", "--set", "model.norm=pre", "--set", "model.encoder.layers=3"),
        *("--set", "model.decoder.layers=3"),
    ]
    code, message = fails("train", mails / "recipe.yaml", *data, "--out", mails / "new", *deeper)
    assert (code, message) == (
        2,
        "lamina: A `grown` model is built around a trained one: give its run with --grow-from.\n",
    )
    assert not (mails / "new").exists()
    run("train", mails / "recipe.yaml", *data, "--out", mails / "grown", *deeper, "--grow-from", mails / "old")
    old, grown = (dict(load_model_folder(mails / name / "model").model.named_parameters()) for name in ("old", "grown"))
    for name, weight in old.items():
        if "final_norm" not in name:
            assert np.array_equal(grown[name].detach(), weight.detach()), name
    text = "Dear all. The meeting is on day 3.\n"
    one = run("translate", mails / "grown", "--shallow", mails / "old", "--format", "jsonl", stdin=text)
    found = json.loads(one)
    own = [
        json.loads(run("rescore", mails / name, "--input", write(mails / "out.jsonl", one)))["score"]
        for name in ("grown", "old")
    ]
    assert found["score"] == pytest.approx(sum(own) / 2, abs=1e-4)


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path
